"""The facts that a campaign's story is made of, gathered by a fixed number of statements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from configs.targets import is_rented
from db.event_kinds import EventKind
from db.events import of_kind, of_kinds
from db.labels import Noun, format_label
from db.models import Campaign, Event, Experiment, Hypothesis, Verdict
from db.models.base import JsonObject
from db.money import spent_by, usd
from db.states import ExperimentKind, ExperimentState
from knowledge.figures import DEFAULT_METRIC
from knowledge.latency_only import latency_only
from knowledge.queries.bests import best_of
from knowledge.queries.facts import campaign_facts
from knowledge.queries.saved_time import saved_time
from knowledge.queries.verification import verification
from knowledge.stored import number
from knowledge.story import BestMoment, Moment, StoryFacts, StoryView, tell_story

TROUBLES = (
    EventKind.CAMPAIGN_PAUSED,
    EventKind.CAMPAIGN_RESUMED,
    EventKind.CAMPAIGN_DEVICE_OUT,
    EventKind.CAMPAIGN_DEVICE_RESTS,
    EventKind.CAMPAIGN_DEVICE_BACK,
    EventKind.EXPERIMENT_FAILED,
    EventKind.JOB_FAILED,
    EventKind.JOB_REQUEUED,
    EventKind.DEVICE_LOST,
    EventKind.WORKER_LOST,
    EventKind.WORKER_MISSING,
)
"""Events that kept a campaign from its work, and that it went on."""

_TOLD = (EventKind.CAMPAIGN_BASELINE, EventKind.CAMPAIGN_BEST, EventKind.RECIPE_CHECKED, *TROUBLES)


def campaign_story(session: Session, campaign_id: int, *, whole: bool = False) -> StoryView:
    """Return the story of a campaign, which must exist."""
    return tell_story(story_facts(session, campaign_id), whole=whole)


def story_facts(session: Session, campaign_id: int) -> StoryFacts:
    """Return all that a story says of a campaign, which must exist."""
    campaign = session.get_one(Campaign, campaign_id)
    told = _events(session, campaign_id)
    facts = replace(campaign_facts(session, campaign_id), outcome=_outcome(session, campaign_id, told))
    baseline = _baseline(session, campaign_id)
    rented = is_rented(str(campaign.spec.get("target", "")))
    spent = spent_by(session, campaign_id)
    return StoryFacts(
        campaign=facts,
        metric=str(campaign.objective.get("metric", DEFAULT_METRIC)),
        min_effect=number(campaign.limits.get("min_effect")),
        latency_only=latency_only(campaign.spec),
        baseline_experiment=None if baseline is None else format_label(Noun.EXPERIMENT, baseline.id),
        baseline_failure=_why_broken(baseline),
        judged_at=tuple(
            session.scalars(
                select(Verdict.created_at)
                .join(Hypothesis, Hypothesis.id == Verdict.hypothesis_id)
                .join(Experiment, Experiment.id == Verdict.experiment_id)
                .where(Hypothesis.campaign_id == campaign_id, Experiment.reproduces_experiment_id.is_(None))
                .order_by(Verdict.id)
            )
        ),
        bests=tuple(
            BestMoment(each.id, each.at, best, number((each.data or {}).get("control_tpot_ms")))
            for each in told
            if each.kind == EventKind.CAMPAIGN_BEST.value
            and (best := best_of(each.data or {}, each.text)) is not None
        ),
        troubles=_moments(told, TROUBLES),
        checks=_moments(told, (EventKind.RECIPE_CHECKED,)),
        refused=_refused(session, campaign_id),
        verification=verification(session, campaign_id),
        spent_usd=usd(spent) if rented or spent else None,
        ended_at=campaign.ended_at,
    )


def _moments(told: Sequence[Event], kinds: Sequence[EventKind]) -> tuple[Moment, ...]:
    return tuple(Moment(each.id, each.at, each.subject, each.text) for each in told if each.kind in kinds)


def _why_broken(baseline: Experiment | None) -> str | None:
    """Why the baseline broke; None of one that was cancelled, of which the campaign's end says why."""
    if baseline is None or baseline.state is ExperimentState.CANCELLED:
        return None
    return baseline.failure


def _events(session: Session, campaign_id: int) -> Sequence[Event]:
    return session.scalars(select(Event).where(of_kinds(_TOLD, campaign_id)).order_by(Event.id)).all()


def _outcome(session: Session, campaign_id: int, told: Sequence[Event]) -> JsonObject:
    """What the campaign came to, as its events told it when they were written."""
    found: JsonObject = {"stopped_early": saved_time(session, campaign_id)}
    for each in told:
        if each.kind == EventKind.CAMPAIGN_BASELINE.value:
            found |= each.data or {}
        if each.kind == EventKind.CAMPAIGN_BEST.value:
            found["best"] = each.data or {}
    return found


def _baseline(session: Session, campaign_id: int) -> Experiment | None:
    query = (
        select(Experiment)
        .where(Experiment.campaign_id == campaign_id, Experiment.kind == ExperimentKind.BASELINE)
        .order_by(Experiment.id.desc())
        .limit(1)
    )
    return session.scalars(query).first()


def _refused(session: Session, campaign_id: int) -> int:
    refused = select(func.count()).where(of_kind(EventKind.HYPOTHESIS_REFUSED, campaign_id))
    return session.scalar(refused) or 0
