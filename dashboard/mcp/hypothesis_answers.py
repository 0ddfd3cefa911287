"""Hypotheses as the tools answer them: the queue, the list of all, and why one stands where it does."""

from __future__ import annotations

from pydantic import Field
from sqlalchemy.orm import Session

from dashboard.mcp.answers import (
    MOST_RELATED,
    Answer,
    Change,
    Effect,
    LatencyOnly,
    Listed,
    changes,
    listed,
    measured,
    predicted,
)
from dashboard.mcp.asking import spoken_against
from dashboard.mcp.quoting import LONG, Quoted, maybe, quoted
from db.labels import Noun
from db.states import HypothesisState
from knowledge.queries.claims.hypotheses import list_hypotheses
from knowledge.queries.claims.hypothesis_detail import hypothesis_detail
from knowledge.queries.lookup import campaign_filter, campaign_of, labelled
from knowledge.queries.order.queue import queue_page

MOST_MOVES = 5
"""Changes of place that are told of a hypothesis."""

WHEN_PREDICTED = "What was predicted when it was proposed, or sealed for its test."

NOW_PREDICTED = "What the belief says that it is ranked by, against the best so far; None unless it waits."


class QueueItem(Answer):
    """A place in the queue; `rank` 1 is tested next, None is under test or not ranked yet."""

    rank: int | None
    id: str
    state: str
    claim: Quoted
    lever: str
    change: tuple[Change, ...]
    predicted: Effect | None = Field(description=WHEN_PREDICTED)
    predicted_now: Effect | None = Field(description=NOW_PREDICTED)
    min_effect_percent: float = Field(description="The smallest effect that is worth having.")
    reason: Quoted | None = Field(description="Why it stands where it does.")
    proposer: str
    pinned: bool
    awaits_approval: bool
    missing: tuple[str, ...] = Field(description="Tools it needs that were not there, with commands.")
    latency_only: LatencyOnly


class HypothesisItem(Answer):
    """A hypothesis as one line; `measured` is the effect that its own verdict found."""

    id: str
    campaign: str
    state: str
    claim: Quoted
    lever: str
    change: tuple[Change, ...]
    predicted: Effect | None
    measured: Effect | None
    experiment: str | None
    proposer: str
    latency_only: LatencyOnly


class Moved(Answer):
    """A change of place in the queue, with the event that caused it."""

    from_rank: int | None
    to_rank: int | None
    reason: Quoted
    cause: Quoted


class WhyAnswer(Answer):
    """Why a hypothesis stands where it does, or why it is ruled out, down to verdicts and findings."""

    id: str
    campaign: str
    state: str
    state_reason: Quoted | None
    verdict_reason: Quoted | None
    why_not: Quoted | None = Field(
        description="Why it is ruled out or not settled; None while it waits, is under test or is supported."
    )
    claim: Quoted
    rationale: Quoted
    refuted_if: Quoted
    proposer: str
    proposer_record: str = Field(description="How often what it proposed here was supported.")
    change: tuple[Change, ...]
    predicted: Effect | None = Field(description=WHEN_PREDICTED)
    predicted_now: Effect | None = Field(description=NOW_PREDICTED)
    measured: Effect | None
    latency_only: LatencyOnly
    rank: int | None
    rank_reason: Quoted | None
    score: dict[str, object] = Field(description="The parts of its score; costs in seconds.")
    waits_for: str | None = Field(description="What it would cost, where it waits for approval.")
    last_moves: tuple[Moved, ...] = Field(description="The last changes of place, newest first.")
    experiments: tuple[str, ...]
    findings: tuple[str, ...] = Field(description="Findings that its verdicts are evidence for or against.")
    follows_from: tuple[str, ...]
    led_to: tuple[str, ...]


def queue(
    session: Session, label: str | None, lever: str | None, limit: int, offset: int
) -> Listed[QueueItem]:
    """The queue of a campaign in its order, what is under test first."""
    page = queue_page(session, campaign_of(session, label), limit=limit, offset=offset, lever=lever)
    items = [
        QueueItem(
            rank=each.rank,
            id=each.id,
            state=each.standing,
            claim=quoted(each.claim),
            lever=each.lever,
            change=changes(each.change),
            predicted=predicted(each.predicted),
            predicted_now=predicted(each.predicted_now),
            min_effect_percent=round(100 * each.min_effect, 3),
            reason=maybe(each.reason),
            proposer=each.proposer,
            pinned=each.pinned,
            awaits_approval=each.approval is not None and each.approval.waits,
            missing=tuple(f"{tool.words}: {tool.command}" for tool in each.missing),
            latency_only=each.latency_only,
        )
        for each in page.items
    ]
    return listed(items, page.total, offset)


def hypotheses(
    session: Session,
    label: str | None,
    states: tuple[HypothesisState, ...],
    lever: str | None,
    proposer: str | None,
    text: str | None,
    limit: int,
    offset: int,
) -> Listed[HypothesisItem]:
    """Hypotheses, those under test and in the queue first."""
    page = list_hypotheses(
        session,
        campaign_id=campaign_filter(session, label),
        states=states,
        lever=lever,
        proposer=proposer,
        text=text,
        limit=limit,
        offset=offset,
    )
    items = [
        HypothesisItem(
            id=each.id,
            campaign=each.campaign,
            state=each.standing,
            claim=quoted(each.claim),
            lever=each.lever,
            change=changes(each.change),
            predicted=predicted(each.predicted),
            measured=measured(each.measured),
            experiment=each.experiment,
            proposer=each.proposer,
            latency_only=each.latency_only,
        )
        for each in page.items
    ]
    return listed(items, page.total, offset)


def why(session: Session, label: str) -> WhyAnswer:
    """Why a hypothesis stands where it does, or what ruled it out."""
    found = hypothesis_detail(session, labelled(session, Noun.HYPOTHESIS, label))
    newest = sorted(found.moves, key=lambda each: each.ranking_event_id, reverse=True)[:MOST_MOVES]
    return WhyAnswer(
        id=found.id,
        campaign=found.campaign,
        state=found.standing,
        state_reason=maybe(found.state_reason if found.ended is None else found.ended.clause, LONG),
        verdict_reason=maybe(found.verdict_reason, LONG),
        why_not=maybe(spoken_against(session, label), LONG),
        claim=quoted(found.claim, LONG),
        rationale=quoted(found.rationale, LONG),
        refuted_if=quoted(found.refuted_if),
        proposer=found.proposer,
        proposer_record=found.proposer_hits,
        change=changes(found.change),
        predicted=predicted(found.predicted),
        predicted_now=predicted(found.predicted_now),
        measured=measured(found.measured),
        latency_only=found.latency_only,
        rank=found.rank,
        rank_reason=maybe(found.rank_reason, LONG),
        score={name: value for name, value in (found.score or {}).items() if _is_small(value)},
        waits_for=found.approval.words if found.approval is not None and found.approval.waits else None,
        last_moves=tuple(
            Moved(
                from_rank=each.from_rank,
                to_rank=each.to_rank,
                reason=quoted(each.reason),
                cause=quoted(each.cause),
            )
            for each in newest
        ),
        experiments=tuple(
            f"{each.id}: {each.kind.value}, {each.outcome.value if each.outcome else each.state.value}"
            for each in found.experiments[-MOST_RELATED:]
        ),
        findings=tuple(
            f"{each.id}: {each.relation.value}, {each.strength}, {each.status.value}"
            for each in found.findings[:MOST_RELATED]
        ),
        follows_from=found.parents[:MOST_RELATED],
        led_to=found.children[:MOST_RELATED],
    )


def _is_small(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float | str)
