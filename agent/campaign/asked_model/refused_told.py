"""Which answers of a language model were refused and why, as it is told with its next question; reads only.

A change is told where it is one of knobs and values of the space, so that no other word of an answer stands
there. A reason may quote a little of an answer: it goes through `quoting.plain` as all that others wrote, and
one that would instruct is left out.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.language_model.instructing import instructs
from agent.language_model.quoting import plain
from db.models import ModelAnswer
from experiments.measurement.evidence import Json
from experiments.space.knob import Knob, written

MOST_REFUSED = 12
"""Refusals that are told at most, and questions that are looked at for them, the last ones."""


def refused_of_answers(session: Session, campaign_id: int, knobs: Mapping[str, Knob]) -> list[Json]:
    """What was refused of the campaign's last answers, the newest first, each once."""
    query = (
        select(ModelAnswer.outcome)
        .where(ModelAnswer.campaign_id == campaign_id)
        .order_by(ModelAnswer.id.desc())
        .limit(MOST_REFUSED)
    )
    found: list[Json] = []
    for outcome in session.scalars(query):
        for each in outcome.get("refused", ()):
            told = _told(str(each["what"]), str(each["reason"]), knobs)
            if told is not None and told not in found:
                found.append(told)
    return found[:MOST_REFUSED]


def _told(what: str, reason: str, knobs: Mapping[str, Knob]) -> Json:
    if instructs(reason) is not None:
        return None
    return {"change": what if _is_of(knobs, what) else None, "why": plain(reason)}


def _is_of(knobs: Mapping[str, Knob], what: str) -> bool:
    """Whether a change in words, such as `serving.compile=default`, is one of these knobs and values."""
    parts = (each.partition("=") for each in what.split(", "))
    return all(name in knobs and value in map(written, knobs[name].values) for name, _, value in parts)
