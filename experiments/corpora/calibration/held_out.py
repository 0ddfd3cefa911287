"""Keeps evaluation text out of calibration text: what quality is measured on may not steer the weights."""

from __future__ import annotations

from functools import lru_cache

from experiments.corpora.calibration.source import CalibrationText
from experiments.corpora.instructions import InstructionItem, held_out_items
from experiments.corpora.passages import shares_passage
from experiments.corpora.signatures import signatures
from experiments.corpora.standard_library import held_out_modules, held_out_passages

HELD_OUT_QUESTIONS = 2000
"""So many of the first held-out items are looked for in conversations: more than an evaluation with all its
parts asks of any packaged campaign."""


def is_evaluation_text(text: CalibrationText) -> bool:
    """Tell whether a text shares a passage with the held-out text, or asks one of its questions."""
    if isinstance(text, str):
        return shares_passage(text, held_out_passages())
    return any(
        message["content"] in _held_out_questions() or shares_passage(message["content"], held_out_passages())
        for message in text
    )


def asks_of_held_out(item: InstructionItem) -> bool:
    """Tell whether a generated item shows a function whose `def` line stands in held-out text too.

    The same line (`def close(self):`) is in many modules; an item about it would be an evaluation item.
    """
    lines = (line.removeprefix("A: ").removeprefix("B: ") for line in _question(item).splitlines())
    return not _held_out_lines().isdisjoint(lines)


def _question(item: InstructionItem) -> str:
    return "\n".join(message["content"] for message in item.prompt_messages)


@lru_cache(maxsize=1)
def _held_out_questions() -> frozenset[str]:
    return frozenset(_question(item) for item in held_out_items(HELD_OUT_QUESTIONS))


@lru_cache(maxsize=1)
def _held_out_lines() -> frozenset[str]:
    return frozenset(signature.line for signature in signatures(held_out_modules()))
