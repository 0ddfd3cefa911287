"""What a campaign does at this moment and what it came to so far, as one view."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from configs.errors import UsageError
from configs.targets import is_rented
from db import events
from db.clock import now
from db.event_kinds import EventKind
from db.events import of_kind
from db.labels import Noun, format_label
from db.models import Campaign, Event, Experiment, Hypothesis
from db.money import spent_by, usd
from db.noise import SERIES_NAME
from db.states import CampaignState, HypothesisState
from knowledge.acts.approvals import approve_above_s
from knowledge.latency_only import latency_only
from knowledge.queries.at_work import interrupted_campaigns
from knowledge.queries.claims.hypotheses import HypothesisRow, list_hypotheses
from knowledge.queries.devices import (
    AtRest,
    DevicesAway,
    OnDevice,
    builds_of,
    devices_of_campaign,
    shown_away,
)
from knowledge.queries.found.fresh_runs import FreshView, differing
from knowledge.queries.found.in_doubt import in_doubt
from knowledge.queries.log import EventView, event_view
from knowledge.queries.lookup import campaign_of
from knowledge.queries.measured.gpu_throttling import GpuThrottlingView, gpu_throttling
from knowledge.queries.order.night import QuestionView, question_now
from knowledge.queries.order.queue import QueueRow, queue_page
from knowledge.queries.present.now_best import BestView
from knowledge.queries.present.now_digest import DigestView, digest_of
from knowledge.queries.present.now_reached import best_of
from knowledge.queries.present.now_run import RunView, runs_of
from knowledge.queries.spent.energy import EnergyView, energy
from knowledge.queries.spent.paid import PaidJobView, paid_now
from knowledge.queries.spent.saved_time import saved_time
from knowledge.queries.spent.untimed import UntimedView, untimed
from knowledge.queries.view import View
from knowledge.stored import number

MOST_NEXT = 5
MOST_SETTLED = 4
"""Verdicts shown as validated, and as many as ruled out or left open: the newest."""
MOST_AWAITING = 3
"""Hypotheses shown of those that wait for approval: the first; the queue's page shows all."""
MOST_EVENTS = 10

TOLD_KINDS = (
    EventKind.CAMPAIGN_STARTED,
    EventKind.CAMPAIGN_BASELINE,
    EventKind.CAMPAIGN_PROFILED,
    EventKind.CAMPAIGN_BEST,
    EventKind.CAMPAIGN_PAUSED,
    EventKind.CAMPAIGN_RESUMED,
    EventKind.CAMPAIGN_WAITS,
    EventKind.CAMPAIGN_DEVICE_OUT,
    EventKind.CAMPAIGN_DEVICE_RESTS,
    EventKind.CAMPAIGN_DEVICE_BACK,
    EventKind.CAMPAIGN_STOPPED,
    EventKind.QUEUE_RANKED,
    EventKind.JOB_REQUEUED,
    EventKind.JOB_FAILED,
    EventKind.STAGE_STARTED,
    EventKind.EXPERIMENT_FAILED,
    EventKind.EXPERIMENT_STOPPED_EARLY,
    EventKind.EXPERIMENT_JUDGED,
    EventKind.EXPERIMENT_CONFOUNDED,
    EventKind.EXPERIMENT_REPRODUCED,
    EventKind.FINDING_ADDED,
    EventKind.FINDING_CHANGED,
    EventKind.DIRECTIVE_GIVEN,
    EventKind.DIRECTIVE_LIFTED,
    EventKind.QUESTION_SETTLED,
    EventKind.NOTE_ADDED,
    EventKind.DEVICE_LOST,
    EventKind.WORKER_LOST,
    EventKind.WORKER_MISSING,
)
"""Events that are shown; what a person does not wait for (jobs taken, stages ended, proposals) is in the
log."""

OPEN = (HypothesisState.INCONCLUSIVE, HypothesisState.CONFOUNDED)
WAITING = (HypothesisState.QUEUED, HypothesisState.PROPOSED)
RULED_OUT = (HypothesisState.REFUTED, HypothesisState.INFEASIBLE)


class Standing(StrEnum):
    """Where a campaign stands, as the page's sentence needs it."""

    BASELINE = "baseline"
    """Trial 0 is being found and measured, or is about to be."""
    TESTING = "testing"
    CHOOSING = "choosing"
    """It runs, and nothing is under test at this moment."""
    INTERRUPTED = "interrupted"
    """Nothing drives it."""
    AWAITING = "awaiting"
    """It runs, and nothing is left to test but what waits for approval."""
    RESTING = "resting"
    """It runs, and others use every device of it."""
    PAUSED = "paused"
    STOPPING = "stopping"
    ENDED = "ended"


class BudgetView(View):
    """Seconds: of the whole, spent by the clock, kept for what runs as far as is expected, saved by the clock
    by stopping early (0 where older verdicts alone tell it, by the time of launches); `experiment_s` is what
    its experiments that ended took on all machines together, `untimed` what the others took at least,
    `energy` what its cards took, `spent_usd` what rented ones cost, None where none was rented."""

    whole_s: float
    spent_s: float
    reserved_s: float
    saved_s: float
    experiments: int
    unfinished: int
    experiment_s: float
    untimed: UntimedView
    energy: EnergyView | None
    spent_usd: float | None

    @property
    def left_s(self) -> float:
        """What is neither spent nor kept."""
        return max(0.0, self.whole_s - self.spent_s - self.reserved_s)


class CampaignNow(View):
    """The campaign itself, with how many hypotheses were decided each way."""

    id: str
    name: str
    model: str
    latency_only: bool
    target: str
    engine: str
    metric: str
    concurrency: int | None
    bits_per_byte_limit: float | None
    seed: int
    started_at: datetime | None
    ended_at: datetime | None
    standing: Standing
    stopped_because: str | None
    supported: int
    ruled_out: int
    left_open: int
    queued: int
    approve_above_s: float | None = None
    awaiting: int = 0


class NowView(View):
    """One campaign at this moment; everything but the last id is empty where there is no campaign.

    `today` is when the reader's day began, `validated` and `settled` are the newest that were decided,
    `awaiting` the first of those that wait for approval, `paid` the jobs that wait or run on rented machines,
    `builds` what other devices build while the baseline is measured;
    `lost_device` tells of a GPU that was lost since the
    campaign was started or went on last, `at_rest` of those that others use, or did when it was interrupted,
    `throttling` of one that was held down while tests were timed; `against_best` is what the newest fresh run
    of the best says where that differs, and `best_in_doubt` what became of its findings since.
    """

    campaign: CampaignNow | None
    budget: BudgetView | None = None
    best: BestView | None = None
    runs: tuple[RunView, ...] = ()
    paid: tuple[PaidJobView, ...] = ()
    next: tuple[QueueRow, ...] = ()
    awaiting: tuple[QueueRow, ...] = ()
    question: QuestionView | None = None
    today: datetime | None = None
    validated: tuple[HypothesisRow, ...] = ()
    settled: tuple[HypothesisRow, ...] = ()
    events: tuple[EventView, ...] = ()
    digest: DigestView | None = None
    builds: tuple[OnDevice, ...] = ()
    lost_device: EventView | None = None
    at_rest: tuple[AtRest, ...] = ()
    throttling: GpuThrottlingView | None = None
    against_best: FreshView | None = None
    best_in_doubt: tuple[str, ...] = ()
    last_id: int = 0

    def are_todays(self, rows: Sequence[HypothesisRow]) -> bool:
        """Whether there are any, and all of them were decided today."""
        return bool(rows) and all(
            self.today is not None and row.state_changed_at >= self.today for row in rows
        )


def now_view(session: Session, label: str | None, since: int | None, today: datetime) -> NowView:
    """Return what a campaign does and came to, of the label or the newest; a fixed number of statements.

    `today` is when the reader's day began. Raises `UsageError` for a label of nothing, and for an A/A series.
    """
    last_id = events.last_id(session)
    if label is None and session.scalar(select(func.count()).where(Campaign.name != SERIES_NAME)) == 0:
        return NowView(campaign=None, last_id=last_id)
    campaign = session.get_one(Campaign, campaign_of(session, label))
    if campaign.name == SERIES_NAME:
        own = format_label(Noun.CAMPAIGN, campaign.id)
        raise UsageError(f"{own} is an A/A series.", f"See what it says: autoinfer aa {own}")
    present = session.scalars(select(now())).one()
    runs = runs_of(session, campaign.id, present)
    best = best_of(session, campaign)
    counts = _counts(session, campaign.id)
    waiting = queue_page(session, campaign.id, limit=MOST_NEXT + len(runs)).items
    away = shown_away(session, (campaign,), present)[campaign.id]
    asks = approve_above_s(campaign.budget) is not None
    awaiting = queue_page(session, campaign.id, limit=MOST_AWAITING, awaiting=True) if asks else None
    return NowView(
        campaign=_campaign(
            session,
            campaign,
            counts,
            _standing(
                session,
                campaign,
                bool(interrupted_campaigns(session, [campaign], present)),
                any(each.interrupted is None for each in runs),
                best is not None,
                awaiting is not None and awaiting.total > 0,
                away,
            ),
            0 if awaiting is None else awaiting.total,
        ),
        today=today,
        budget=_budget(session, campaign, runs),
        best=best,
        runs=runs,
        builds=builds_of(session, campaign.id) if best is None else (),
        question=question_now(session, campaign.id),
        paid=paid_now(session, campaign),
        awaiting=() if awaiting is None else awaiting.items,
        next=tuple(row for row in waiting if row.state is not HypothesisState.TESTING)[:MOST_NEXT],
        validated=list_hypotheses(
            session, campaign_id=campaign.id, states=(HypothesisState.SUPPORTED,), limit=MOST_SETTLED
        ).items,
        settled=list_hypotheses(
            session, campaign_id=campaign.id, states=(*RULED_OUT, *OPEN), limit=MOST_SETTLED
        ).items,
        events=tuple(
            event_view(each) for each in events.latest(session, MOST_EVENTS, TOLD_KINDS, campaign.id)[::-1]
        ),
        digest=None if since is None else digest_of(session, campaign.id, since),
        lost_device=_lost_device(session, campaign.id),
        at_rest=away.at_rest,
        throttling=gpu_throttling(session, campaign.id),
        against_best=differing(session, campaign.id).get(best.experiment or "") if best else None,
        best_in_doubt=_in_doubt(session, campaign.id, best),
        last_id=last_id,
    )


def _in_doubt(session: Session, campaign_id: int, best: BestView | None) -> tuple[str, ...]:
    """What became since of the findings of the test that made the best, a clause each."""
    if best is None or best.experiment is None:
        return ()
    return in_doubt(session, campaign_id, best.experiment).get(best.experiment, ())


def _lost_device(session: Session, campaign_id: int) -> EventView | None:
    """The loss of a device, where the campaign did not go on after it."""
    newest = select(Event).order_by(Event.id.desc()).limit(1)
    lost = session.scalar(newest.where(of_kind(EventKind.DEVICE_LOST, campaign_id)))
    if lost is None:
        return None
    resumed = session.scalar(newest.where(of_kind(EventKind.CAMPAIGN_RESUMED, campaign_id)))
    return None if resumed is not None and resumed.id > lost.id else event_view(lost)


def _counts(session: Session, campaign_id: int) -> dict[HypothesisState, int]:
    query = (
        select(Hypothesis.state, func.count())
        .where(
            Hypothesis.campaign_id == campaign_id,
            # what another target confirmed is the same claim once more
            or_(Hypothesis.target == "", Hypothesis.state.in_(WAITING)),
        )
        .group_by(Hypothesis.state)
    )
    return {state: count for state, count in session.execute(query)}  # noqa: C416 - rows, not pairs


def _campaign(
    session: Session,
    campaign: Campaign,
    counts: dict[HypothesisState, int],
    standing: Standing,
    awaiting: int,
) -> CampaignNow:
    concurrency = number(campaign.objective.get("concurrency"))
    return CampaignNow(
        id=format_label(Noun.CAMPAIGN, campaign.id),
        name=campaign.name,
        model=campaign.model,
        latency_only=latency_only(campaign.spec),
        target=campaign.target,
        engine=str(campaign.spec.get("engine", "")),
        metric=str(campaign.objective.get("metric", "")),
        concurrency=None if concurrency is None else int(concurrency),
        bits_per_byte_limit=number(campaign.limits.get("bits_per_byte")),
        seed=campaign.seed,
        started_at=campaign.started_at,
        ended_at=campaign.ended_at,
        standing=standing,
        stopped_because=campaign.stopped_because,
        supported=counts.get(HypothesisState.SUPPORTED, 0),
        ruled_out=sum(counts.get(state, 0) for state in RULED_OUT),
        left_open=sum(counts.get(state, 0) for state in OPEN),
        queued=sum(counts.get(state, 0) for state in WAITING),
        approve_above_s=approve_above_s(campaign.budget),
        awaiting=awaiting,
    )


def _standing(
    session: Session,
    campaign: Campaign,
    interrupted: bool,
    runs: bool,
    has_baseline: bool,
    awaiting: bool,
    away: DevicesAway,
) -> Standing:
    if interrupted:
        return Standing.INTERRUPTED
    match campaign.state:
        case CampaignState.STOPPED:
            return Standing.ENDED
        case CampaignState.PAUSED:
            return Standing.PAUSED
        case CampaignState.STOPPING:
            return Standing.STOPPING
    if not runs and away.at_rest and _is_all(campaign, away):
        return Standing.RESTING
    if not has_baseline:
        return Standing.BASELINE
    if runs:
        return Standing.TESTING
    return Standing.AWAITING if awaiting and _waits(session, campaign.id) else Standing.CHOOSING


def _is_all(campaign: Campaign, away: DevicesAway) -> bool:
    """Whether nothing but what rests is left of the campaign's devices."""
    return set(devices_of_campaign(campaign)) <= away.out | {each.device for each in away.at_rest}


def _waits(session: Session, campaign_id: int) -> bool:
    """Whether the loop said that nothing else is left, and began no test since."""
    said, begun = (
        session.scalar(select(func.max(Event.id)).where(of_kind(kind, campaign_id))) or 0
        for kind in (EventKind.CAMPAIGN_WAITS, EventKind.HYPOTHESIS_PREREGISTERED)
    )
    return said > begun


def _budget(session: Session, campaign: Campaign, runs: Sequence[RunView]) -> BudgetView | None:
    whole_s = number(campaign.budget.get("wall_s"))
    if not whole_s:
        return None
    spent_s = number(campaign.budget.get("spent_s")) or 0.0
    took = select(
        func.count(),
        func.count().filter(Experiment.finished_at.is_(None)),
        func.coalesce(func.sum(Experiment.wall_s), 0.0),
    ).where(Experiment.campaign_id == campaign.id, Experiment.started_at.is_not(None))
    dollars = spent_by(session, campaign.id)
    rented = is_rented(str(campaign.spec.get("target", "")))
    began, unfinished, experiment_s = session.execute(took).one()
    reserved_s = max((each.left_s or 0.0 for each in runs), default=0.0)
    saved = saved_time(session, campaign.id)
    return BudgetView(
        whole_s=whole_s,
        spent_s=spent_s,
        reserved_s=min(reserved_s, max(0.0, whole_s - spent_s)),
        saved_s=saved.saved_s if saved.by_clock else 0.0,
        experiments=began - unfinished,
        unfinished=unfinished,
        experiment_s=experiment_s,
        untimed=untimed(session, campaign.id),
        energy=energy(session, campaign.id),
        spent_usd=usd(dollars) if rented or dollars else None,
    )
