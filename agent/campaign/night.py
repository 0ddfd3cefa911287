"""Telling what became of the question of the night, once, when nothing more is to be tested for it."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from db import events
from db.event_kinds import EventKind
from db.models import Event
from knowledge.queries.order.night import question_now

ASKED = "directive_event_id"
"""Where the event keeps which directive asked the question."""


def tell_of_question(session: Session, campaign_id: int) -> None:
    """Append the event that says how the question of the night of a campaign was settled, or left open;
    nothing while it is open, where nobody asked one, and where the same was told before."""
    question = question_now(session, campaign_id)
    if question is None or not question.is_over:
        return
    text = f"The question of the night: {question.claim.rstrip('.')}. {question.sentence}"
    before = select(Event).where(events.of_kind(EventKind.QUESTION_SETTLED, campaign_id))
    if any(each.text == text and _asked_by(each) == question.event_id for each in session.scalars(before)):
        return
    data = {ASKED: question.event_id, "answer": question.answer.value, "experiment": question.experiment}
    events.append(session, EventKind.QUESTION_SETTLED, text, question.hypothesis, campaign_id, data)


def _asked_by(event: Event) -> object:
    return (event.data or {}).get(ASKED)
