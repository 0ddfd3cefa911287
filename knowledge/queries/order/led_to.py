"""What a verdict led to: the findings it bears on and the moves in the queue that it caused."""

from __future__ import annotations

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Event, Finding, FindingEvidence, Hypothesis, Move, Verdict
from db.states import EvidenceRelation, FindingStatus
from knowledge.queries.found.doubts import NO_DOUBT, doubts_of
from knowledge.queries.view import View

MOST_MOVES = 5
"""Moves that are told one by one, the longest first."""


class LedToFinding(View):
    """A finding, what the verdict says of it, and what speaks against it beside its own verdicts."""

    id: str
    claim: str
    status: FindingStatus
    relation: EvidenceRelation
    doubt: str | None = None


class CausedMove(View):
    """A move in the queue; a rank is empty on the side where the hypothesis was not in it."""

    hypothesis: str
    claim: str
    from_rank: int | None
    to_rank: int | None
    reason: str


class LedTo(View):
    """`moves` counts all that the verdict caused, `longest` are some of them."""

    findings: tuple[LedToFinding, ...]
    moves: int
    longest: tuple[CausedMove, ...]


def led_to(session: Session, experiment_id: int) -> LedTo:
    """Return what an experiment's verdict led to; a fixed number of statements."""
    findings = session.execute(
        select(Finding, FindingEvidence.relation)
        .join(FindingEvidence, FindingEvidence.finding_id == Finding.id)
        .join(Verdict, Verdict.id == FindingEvidence.verdict_id)
        .where(Verdict.experiment_id == experiment_id)
        .order_by(Finding.id)
    ).all()
    doubts = doubts_of(session, [finding for finding, _ in findings])
    caused = (Event.subject == format_label(Noun.EXPERIMENT, experiment_id)) & (
        Event.kind == EventKind.EXPERIMENT_JUDGED.value
    )
    moved = (Move.from_rank.is_not(None)) & (Move.to_rank.is_not(None)) & (Move.from_rank != Move.to_rank)
    count = select(func.count()).select_from(Move).join(Event, Event.id == Move.event_id).where(caused, moved)
    longest = session.execute(
        select(Move, Hypothesis.claim)
        .join(Event, Event.id == Move.event_id)
        .join(Hypothesis, Hypothesis.id == Move.hypothesis_id)
        .where(caused, moved)
        .order_by(func.abs(Move.from_rank - Move.to_rank).desc(), Move.id)
        .limit(MOST_MOVES)
    )
    return LedTo(
        findings=tuple(
            LedToFinding(
                id=format_label(Noun.FINDING, each.id),
                claim=each.claim,
                status=each.status,
                relation=relation,
                doubt=doubts.get(each.id, NO_DOUBT).words,
            )
            for each, relation in findings
        ),
        moves=session.scalar(count) or 0,
        longest=tuple(
            CausedMove(
                hypothesis=format_label(Noun.HYPOTHESIS, move.hypothesis_id),
                claim=claim,
                from_rank=move.from_rank,
                to_rank=move.to_rank,
                reason=move.reason,
            )
            for move, claim in longest
        ),
    )
