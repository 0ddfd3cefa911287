"""Since you last looked: what a campaign decided, what surprised, what it took, counted from an event on."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from db.event_kinds import EventKind
from db.events import of_kind
from db.labels import Noun, format_label
from db.models import Event, Experiment, Hypothesis, Verdict
from db.states import ExperimentKind, VerdictOutcome
from knowledge.queries.present.now_best import Told, bests_told
from knowledge.queries.view import (
    EffectView,
    View,
    effect_view,
    prediction_interval,
    prediction_view,
)
from knowledge.telling.facts import JudgedFact

MOST_DECISIONS = 8
"""Decisions of a digest that are named; all are counted."""

MOST_READ = 200
"""Decisions, the newest, among which surprises are looked for."""

MOST_COUNTED = 1000
"""Events that are counted: of more it is told that there are more."""

MOST_SURPRISES = 5
"""Surprises that are named, the largest."""


class DecisionView(View):
    """A verdict that came since; `surprise` is how far the effect lies outside the 80 % prediction, in
    half-widths of it, 0 inside."""

    hypothesis: str
    experiment: str
    claim: str
    outcome: VerdictOutcome
    reason: str
    effect: EffectView | None
    predicted: EffectView | None
    surprise: float


class DigestView(View):
    """What happened after the event `since`, which is the newest that was seen; `spent_s` are seconds of
    experiments that ended since, `speedup` and `speedup_before` the best now and then where it changed."""

    since: int
    since_at: datetime | None
    events: int
    decided: dict[str, int]
    decisions: tuple[DecisionView, ...]
    surprises: tuple[DecisionView, ...]
    surprised: int
    spent_s: float
    experiments: int
    speedup: float | None
    speedup_before: float | None
    best_experiment: str | None

    @property
    def unnamed(self) -> int:
        """Decisions that are counted only."""
        return sum(self.decided.values()) - len(self.decisions)


def digest_of(session: Session, campaign_id: int, since: int) -> DigestView:
    """What happened in a campaign after an event; seven statements, and at most `MOST_READ` verdicts."""
    after = (Event.campaign_id == campaign_id) & (Event.id > since)
    since_at = session.scalar(select(Event.at).where(Event.id <= since).order_by(Event.id.desc()).limit(1))
    some = select(Event.id).where(after).limit(MOST_COUNTED + 1).subquery()
    events = session.scalar(select(func.count()).select_from(some)) or 0
    judged = (
        select(
            Verdict.experiment_id,
            Verdict.outcome,
            Verdict.reason,
            Verdict.effect_log,
            Verdict.interval_low_log,
            Verdict.interval_high_log,
            Hypothesis.id,
            Hypothesis.claim,
            Hypothesis.metric,
            Hypothesis.prediction,
        )
        .join(Experiment, Experiment.id == Verdict.experiment_id)
        .join(Hypothesis, Hypothesis.id == Verdict.hypothesis_id)
    )
    own = (Experiment.campaign_id == campaign_id) & (Experiment.kind == ExperimentKind.TEST)
    when = own if since_at is None else own & (Verdict.created_at > since_at)
    newest = session.execute(judged.where(when).order_by(Verdict.id.desc()).limit(MOST_READ)).all()
    decided = {
        outcome.value: count
        for outcome, count in session.execute(
            select(Verdict.outcome, func.count())
            .join(Experiment, Experiment.id == Verdict.experiment_id)
            .where(when)
            .group_by(Verdict.outcome)
        )
    }
    ended = Experiment.campaign_id == campaign_id
    if since_at is not None:
        ended &= Experiment.finished_at > since_at
    spent = session.execute(
        select(func.coalesce(func.sum(Experiment.wall_s), 0.0), func.count()).where(
            ended, Experiment.finished_at.is_not(None)
        )
    ).one()
    best, before = _bests(session, campaign_id, since)
    decisions = tuple(_decision(row) for row in newest)
    surprising = [
        each for each in decisions if each.surprise > 0 and each.outcome is not VerdictOutcome.CONFOUNDED
    ]
    return DigestView(
        since=since,
        since_at=since_at,
        events=events,
        decided=decided,
        decisions=decisions[:MOST_DECISIONS],
        surprises=tuple(sorted(surprising, key=lambda each: -each.surprise))[:MOST_SURPRISES],
        surprised=len(surprising),
        spent_s=spent[0] or 0.0,
        experiments=spent[1],
        speedup=None if best is None else best.speedup,
        speedup_before=None if before is None else before.speedup,
        best_experiment=None if best is None else best.experiment,
    )


def _bests(session: Session, campaign_id: int, since: int) -> tuple[Told | None, Told | None]:
    """The newest best if it was told since, and the one before."""
    of_best = of_kind(EventKind.CAMPAIGN_BEST, campaign_id)
    newest = select(func.max(Event.id)).where(of_best, Event.id > since).scalar_subquery()
    earlier = select(func.max(Event.id)).where(of_best, Event.id <= since).scalar_subquery()
    found = session.scalars(
        select(Event).where((Event.id == newest) | (Event.id == earlier)).order_by(Event.id)
    ).all()
    by_age = {
        is_new: bests_told([each for each in found if (each.id > since) is is_new])
        for is_new in (True, False)
    }
    return (
        by_age[True][-1] if by_age[True] else None,
        by_age[False][-1] if by_age[False] else None,
    )


def _decision(row: Any) -> DecisionView:
    fact = JudgedFact(
        id=format_label(Noun.HYPOTHESIS, row.id),
        experiment=format_label(Noun.EXPERIMENT, row.experiment_id),
        claim=row.claim,
        metric=row.metric,
        outcome=row.outcome,
        reason=row.reason,
        effect_log=row.effect_log,
        low_log=row.interval_low_log,
        high_log=row.interval_high_log,
        predicted_log=prediction_interval(row.prediction),
    )
    return DecisionView(
        hypothesis=fact.id,
        experiment=fact.experiment,
        claim=fact.claim,
        outcome=fact.outcome,
        reason=fact.reason,
        effect=effect_view(fact.effect_log, fact.low_log, fact.high_log, fact.metric),
        predicted=prediction_view(row.prediction, row.metric),
        surprise=fact.surprise,
    )
