"""The scopes of the findings that an answer tells of: none says more than its own."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from db.labels import Noun, format_label, parse_label_of
from db.models import Finding
from knowledge.asking.answer import Answer, findings_in, with_scopes
from knowledge.queries.scopes import scope_lines


def scoped(session: Session, answer: Answer) -> Answer:
    """Return the answer with where each of its findings holds; two statements, none where it has none."""
    ids = [parse_label_of(Noun.FINDING, each) for each in findings_in(answer)]
    if not ids:
        return answer
    lines = scope_lines(session, session.scalars(select(Finding).where(Finding.id.in_(ids))).all())
    return with_scopes(answer, {format_label(Noun.FINDING, each): line for each, line in lines.items()})
