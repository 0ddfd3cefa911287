"""The facts that a campaign's story is made of, gathered by a fixed number of statements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from configs.targets import is_rented
from db import events
from db.event_kinds import EventKind
from db.events import of_kind, of_kinds
from db.labels import Noun, format_label
from db.models import Campaign, Event, Experiment, Finding, FindingEvidence, Hypothesis, Verdict
from db.models.base import JsonObject
from db.money import spent_by, usd
from db.states import ExperimentKind, ExperimentState, FindingStatus, VerdictOutcome
from knowledge.figures import DEFAULT_METRIC
from knowledge.latency_only import latency_only
from knowledge.queries.bests import best_of
from knowledge.queries.facts import campaign_facts
from knowledge.queries.found.verification import verification
from knowledge.queries.spent.saved_time import saved_time
from knowledge.stored import FROM_MODEL, number
from knowledge.telling.story import tell_story
from knowledge.telling.story_parts import BestMoment, Moment, Said, StoryFacts, StoryView

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

_STEERED = {EventKind.DIRECTIVE_GIVEN.value: "said", EventKind.DIRECTIVE_LIFTED.value: "lifted"}

_TOLD = (
    EventKind.CAMPAIGN_BASELINE,
    EventKind.CAMPAIGN_BEST,
    EventKind.RECIPE_CHECKED,
    EventKind.DIRECTIVE_GIVEN,
    EventKind.DIRECTIVE_LIFTED,
    EventKind.FINDING_CHANGED,
    *TROUBLES,
)


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
    of_model = {} if facts.asked is None else _judged_of_model(session, campaign_id)
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
            BestMoment(each.id, each.at, best, each.data or {})
            for each in told
            if each.kind == EventKind.CAMPAIGN_BEST.value
            and (best := best_of(each.data or {}, each.text)) is not None
        ),
        troubles=_moments(told, TROUBLES),
        disputes=_moments(_disputes(session, campaign_id), (EventKind.FINDING_DISPUTED,)),
        checks=_moments(told, (EventKind.RECIPE_CHECKED,)),
        said=_said(told, _notes(session, campaign)),
        made_stale=_moments([each for each in told if _made_stale(each)], (EventKind.FINDING_CHANGED,)),
        model_judged=sum(of_model.values()),
        model_supported=of_model.get(VerdictOutcome.SUPPORTED, 0),
        refused=_refused(session, campaign_id),
        verification=verification(session, campaign_id),
        spent_usd=usd(spent) if rented or spent else None,
        ended_at=campaign.ended_at,
    )


def interruptions(session: Session, campaign_id: int) -> tuple[Moment, ...]:
    """What kept a campaign from its work, and that it went on, in its order; one statement."""
    query = select(Event).where(of_kinds(TROUBLES, campaign_id)).order_by(Event.id)
    return _moments(session.scalars(query).all(), TROUBLES)


def _moments(told: Sequence[Event], kinds: Sequence[EventKind]) -> tuple[Moment, ...]:
    return tuple(Moment(each.id, each.at, each.subject, each.text) for each in told if each.kind in kinds)


def _said(told: Sequence[Event], notes: Sequence[Event]) -> tuple[Said, ...]:
    """Notes and directives, in their order."""
    steered = [each for each in told if each.kind in _STEERED]
    return tuple(
        Said(
            each.id,
            each.at,
            _STEERED.get(each.kind, "noted"),
            each.text.removeprefix("Lifted: "),
            (each.data or {}).get(events.BY),
            tuple((each.data or {}).get("stale") or ()),
        )
        for each in sorted([*steered, *notes], key=lambda each: each.id)
    )


def _notes(session: Session, campaign: Campaign) -> Sequence[Event]:
    """Notes that belong to the campaign, and of those that belong to none what was written while it ran or
    made a finding of it stale."""
    kind = Event.kind == EventKind.NOTE_ADDED.value
    mine = (Event.campaign_id == campaign.id) | Event.campaign_id.is_(None)
    found = session.scalars(select(Event).where(kind, mine).order_by(Event.id)).all()
    numbers = select(Finding.id).where(Finding.campaign_id == campaign.id)
    own = {format_label(Noun.FINDING, each) for each in session.scalars(numbers)} if found else set()
    return [
        each
        for each in found
        if each.campaign_id is not None
        or own & set((each.data or {}).get("stale") or ())
        or _ran_at(campaign, each.at)
    ]


def _ran_at(campaign: Campaign, at: datetime) -> bool:
    begun, ended = campaign.started_at, campaign.ended_at
    return begun is not None and begun <= at and (ended is None or at <= ended)


def _disputes(session: Session, campaign_id: int) -> Sequence[Event]:
    """What was told of disputes in which a finding of the campaign is a side, whoever the other is of."""
    kind = Event.kind == EventKind.FINDING_DISPUTED.value
    found = session.scalars(select(Event).where(kind).order_by(Event.id)).all()
    if not found:
        return []
    numbers = (
        select(FindingEvidence.finding_id)
        .join(Verdict, Verdict.id == FindingEvidence.verdict_id)
        .join(Experiment, Experiment.id == Verdict.experiment_id)
        .where(Experiment.campaign_id == campaign_id)
    )
    own = {format_label(Noun.FINDING, each) for each in session.scalars(numbers)}
    return [each for each in found if own & set((each.data or {}).get("findings") or ())]


def _made_stale(changed: Event) -> bool:
    """Whether a finding became stale, and not by a note, which says so itself."""
    data = changed.data or {}
    return data.get("status") == FindingStatus.STALE.value and "note_event_id" not in data


def _judged_of_model(session: Session, campaign_id: int) -> dict[VerdictOutcome, int]:
    """Verdicts on what a language model proposed, by outcome."""
    query = (
        select(Verdict.outcome, func.count())
        .join(Hypothesis, Hypothesis.id == Verdict.hypothesis_id)
        .join(Experiment, Experiment.id == Verdict.experiment_id)
        .where(
            Hypothesis.campaign_id == campaign_id,
            Hypothesis.change[FROM_MODEL]["answer"].as_integer().is_not(None),
            Experiment.reproduces_experiment_id.is_(None),
        )
        .group_by(Verdict.outcome)
    )
    return {outcome: count for outcome, count in session.execute(query)}  # noqa: C416 - rows, not pairs


def _why_broken(baseline: Experiment | None) -> str | None:
    """Why the baseline broke; None of one that was cancelled, of which the campaign's end says why."""
    if baseline is None or baseline.state is ExperimentState.CANCELLED:
        return None
    return baseline.failure


def _events(session: Session, campaign_id: int) -> Sequence[Event]:
    return session.scalars(select(Event).where(of_kinds(_TOLD, campaign_id)).order_by(Event.id)).all()


def _outcome(session: Session, campaign_id: int, told: Sequence[Event]) -> JsonObject:
    """What the campaign came to, as its events told it when they were written."""
    found: JsonObject = {"stopped_early": saved_time(session, campaign_id).model_dump()}
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
