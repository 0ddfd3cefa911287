"""Answers as a language model might give them, on the small space of the unit tests."""

from __future__ import annotations

import json
from typing import Any

from agent.language_model.answer import Allowed
from agent.language_model.question import MOST_ASKED
from tests.unit.agent.campaigns import SPACE

ALLOWED = Allowed({each.name: each for each in SPACE.knobs}, frozenset({"F-001"}), 0.03, MOST_ASKED)


def entry(**changes: Any) -> dict[str, Any]:
    """A sound proposal, with these fields in place of its own."""
    return {
        "change": {"serving.compile": "default"},
        "gain_percent": 20,
        "give_or_take_percent": 9.5,
        "min_effect_percent": 3,
        "refuted_if": "A token takes as long as before",
        "rationale": "Dispatch takes 40 % of a step (F-001); GEMM/attention little, 12 tokens/s.",
        "builds_on": ["F-001"],
        **changes,
    }


def answer(*entries: Any) -> str:
    return json.dumps({"hypotheses": list(entries)})
