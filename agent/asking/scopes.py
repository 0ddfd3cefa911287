"""The scopes of the findings that an answer tells of, for none says more than its own, and what speaks
against them; and which of its hypotheses and experiments are of made-up weights, and speak of times alone."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import select
from sqlalchemy.orm import Session

from db.labels import Noun, format_label, parse_label_of
from db.models import Finding
from knowledge.asking.answer import Answer, findings_in, tests_in, with_latency_only, with_scopes
from knowledge.queries.found.doubts import doubts_of
from knowledge.queries.found.scopes import scope_lines
from knowledge.queries.made_up import latency_only_among


def scoped(session: Session, answer: Answer) -> Answer:
    """Return the answer with where each of its findings holds and what speaks against it, and with what is of
    made-up weights marked; a fixed number of statements, none for what it does not name."""
    answer = with_latency_only(answer, latency_only_among(session, tests_in(answer)))
    ids = [parse_label_of(Noun.FINDING, each) for each in findings_in(answer)]
    if not ids:
        return answer
    findings = session.scalars(select(Finding).where(Finding.id.in_(ids))).all()
    doubts = {number: each.words for number, each in doubts_of(session, findings).items()}
    return with_scopes(answer, _by_label(scope_lines(session, findings)), _by_label(doubts))


def _by_label(told: Mapping[int, str | None]) -> dict[str, str]:
    return {format_label(Noun.FINDING, number): each for number, each in told.items() if each}
