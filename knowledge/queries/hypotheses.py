"""Hypotheses: the list and one of them."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from sqlalchemy import Select, case, func, literal, select
from sqlalchemy.orm import Session, aliased

from db.labels import Noun, format_label
from db.models import Configuration, Experiment, Hypothesis, HypothesisParent, Move, Verdict
from db.models.base import JsonObject
from db.states import ExperimentKind, ExperimentState, HypothesisState
from knowledge.queries.view import (
    ChangeView,
    EffectView,
    Page,
    View,
    changes_between,
    prediction_view,
    verdict_effect,
)
from knowledge.stored import LEVER_JOINT


class HypothesisRow(View):
    """A hypothesis as one line; `measured` is the effect of its own verdict (no reproduction), `predicted`
    has an 80 % interval."""

    id: str
    campaign: str
    claim: str
    state: HypothesisState
    state_reason: str | None
    lever: str
    metric: str
    change: tuple[ChangeView, ...]
    predicted: EffectView | None
    measured: EffectView | None
    verdict_reason: str | None
    experiment: str | None
    min_effect: float
    proposer: str
    pinned: bool
    rank: int | None
    rank_reason: str | None
    created_at: datetime
    state_changed_at: datetime


class MoveView(View):
    """A change of place in the queue, with its reason and the events that caused it and made it."""

    from_rank: int | None
    to_rank: int | None
    reason: str
    event_id: int
    ranking_event_id: int


class TestView(View):
    """An experiment of a hypothesis, in short."""

    __test__ = False  # not a test class for pytest
    id: str
    kind: ExperimentKind
    state: ExperimentState
    wall_s: float | None


class HypothesisDetail(HypothesisRow):
    """Everything about one hypothesis."""

    refuted_if: str
    rationale: str
    control: JsonObject
    candidate: JsonObject
    score: JsonObject | None
    preregistration_digest: str | None
    parents: tuple[str, ...]
    children: tuple[str, ...]
    experiments: tuple[TestView, ...]
    moves: tuple[MoveView, ...]


_CONTROL, _CANDIDATE = aliased(Configuration), aliased(Configuration)
_STATES_IN_ORDER = (HypothesisState.TESTING, HypothesisState.QUEUED, HypothesisState.PROPOSED)


def list_hypotheses(
    session: Session,
    *,
    campaign_id: int | None = None,
    states: Collection[HypothesisState] = (),
    lever: str | None = None,
    limit: int,
    offset: int = 0,
) -> Page[HypothesisRow]:
    """Return hypotheses: those under test, the queue in its order, then the others, newest change first."""
    query = _selected(campaign_id, states, lever)
    total = session.scalar(select(func.count()).select_from(query.subquery())) or 0
    standing = case(
        {state: place for place, state in enumerate(_STATES_IN_ORDER)}, value=Hypothesis.state, else_=9
    )
    ordered = _with_verdict(query).order_by(
        standing, Hypothesis.rank.nulls_last(), Hypothesis.state_changed_at.desc(), Hypothesis.id.desc()
    )
    rows = session.execute(ordered.limit(limit).offset(offset)).all()
    return Page[HypothesisRow](
        items=tuple(HypothesisRow(**_fields(row)) for row in rows), total=total, limit=limit, offset=offset
    )


def hypothesis_detail(session: Session, hypothesis_id: int) -> HypothesisDetail:
    """Return everything about one hypothesis, which must exist."""
    query = _with_verdict(select(Hypothesis).where(Hypothesis.id == hypothesis_id))
    row = session.execute(query).one()
    hypothesis: Hypothesis = row.Hypothesis
    links = session.execute(
        select(HypothesisParent.hypothesis_id, HypothesisParent.parent_id).where(
            (HypothesisParent.hypothesis_id == hypothesis_id) | (HypothesisParent.parent_id == hypothesis_id)
        )
    ).all()
    tests = session.scalars(
        select(Experiment).where(Experiment.hypothesis_id == hypothesis_id).order_by(Experiment.id)
    ).all()
    moves = session.scalars(select(Move).where(Move.hypothesis_id == hypothesis_id).order_by(Move.id)).all()
    return HypothesisDetail(
        **_fields(row),
        refuted_if=hypothesis.refuted_if,
        rationale=hypothesis.rationale,
        control=row.control_knobs,
        candidate=row.candidate_knobs,
        score=hypothesis.score,
        preregistration_digest=hypothesis.preregistration_digest,
        parents=tuple(_label(parent) for child, parent in links if child == hypothesis_id),
        children=tuple(_label(child) for child, parent in links if parent == hypothesis_id),
        experiments=tuple(
            TestView(
                id=format_label(Noun.EXPERIMENT, each.id),
                kind=each.kind,
                state=each.state,
                wall_s=each.wall_s,
            )
            for each in tests
        ),
        moves=tuple(
            MoveView(
                from_rank=each.from_rank,
                to_rank=each.to_rank,
                reason=each.reason,
                event_id=each.event_id,
                ranking_event_id=each.ranking_event_id,
            )
            for each in moves
        ),
    )


def _selected(campaign_id: int | None, states: Collection[HypothesisState], lever: str | None) -> Select[Any]:
    query = select(Hypothesis)
    if campaign_id is not None:
        query = query.where(Hypothesis.campaign_id == campaign_id)
    if states:
        query = query.where(Hypothesis.state.in_(list(states)))
    if lever is not None:
        joined = literal(LEVER_JOINT) + Hypothesis.lever + LEVER_JOINT
        query = query.where(joined.contains(f"{LEVER_JOINT}{lever}{LEVER_JOINT}", autoescape=True))
    return query


def _with_verdict(query: Select[Any]) -> Select[Any]:
    """Add both configurations and the verdict of the hypothesis' first experiment of its own."""
    first = (
        select(Verdict.hypothesis_id, func.min(Verdict.id).label("verdict_id"))
        .where(Verdict.hypothesis_id.is_not(None))
        .group_by(Verdict.hypothesis_id)
        .subquery()
    )
    return (
        query.join(_CONTROL, _CONTROL.id == Hypothesis.control_configuration_id)
        .join(_CANDIDATE, _CANDIDATE.id == Hypothesis.candidate_configuration_id)
        .outerjoin(first, first.c.hypothesis_id == Hypothesis.id)
        .outerjoin(Verdict, Verdict.id == first.c.verdict_id)
        .add_columns(
            _CONTROL.knobs.label("control_knobs"), _CANDIDATE.knobs.label("candidate_knobs"), Verdict
        )
    )


def _fields(row: Any) -> dict[str, Any]:
    hypothesis: Hypothesis = row.Hypothesis
    verdict: Verdict | None = row.Verdict
    return {
        "id": _label(hypothesis.id),
        "campaign": format_label(Noun.CAMPAIGN, hypothesis.campaign_id),
        "claim": hypothesis.claim,
        "state": hypothesis.state,
        "state_reason": hypothesis.state_reason,
        "lever": hypothesis.lever,
        "metric": hypothesis.metric,
        "change": changes_between(row.control_knobs, row.candidate_knobs),
        "predicted": prediction_view(hypothesis.prediction, hypothesis.metric),
        "measured": None if verdict is None else verdict_effect(verdict),
        "verdict_reason": None if verdict is None else verdict.reason,
        "experiment": None if verdict is None else format_label(Noun.EXPERIMENT, verdict.experiment_id),
        "min_effect": hypothesis.min_effect,
        "proposer": hypothesis.proposer,
        "pinned": hypothesis.pinned,
        "rank": hypothesis.rank,
        "rank_reason": hypothesis.rank_reason,
        "created_at": hypothesis.created_at,
        "state_changed_at": hypothesis.state_changed_at,
    }


def _label(hypothesis_id: int) -> str:
    return format_label(Noun.HYPOTHESIS, hypothesis_id)
