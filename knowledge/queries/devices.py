"""What runs on which device, where experiments were measured, and which devices a campaign left out."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from configs.targets import CPU
from db.event_kinds import EventKind
from db.events import of_kind, of_kinds
from db.labels import Noun, format_label
from db.models import Campaign, Event, Experiment, Hypothesis, Job, JobQuote
from db.states import CampaignState, ExperimentKind, JobState
from knowledge.queries.view import View


class OnDevice(View):
    """A job that runs on a device, such as `desk/cuda:0`; with its experiment, if it is for one."""

    device: str
    kind: str
    experiment: str | None
    hypothesis: str | None
    claim: str | None
    stage: str | None
    started_at: datetime | None


class AtRest(View):
    """A device that others use and that a campaign gives no test until they are gone; `in_a_row` is how many
    experiments in a row found them there, `told` the event that says who they are."""

    device: str
    since: datetime
    in_a_row: int
    event_id: int
    told: str


def on_devices(session: Session) -> dict[str, OnDevice]:
    """The running job of each device that has one, by device; one statement."""
    query = (
        select(Job, Experiment.stage, Hypothesis.id, Hypothesis.claim)
        .outerjoin(Experiment, Experiment.id == Job.experiment_id)
        .outerjoin(Hypothesis, Hypothesis.id == Experiment.hypothesis_id)
        .where(Job.state == JobState.RUNNING, Job.device.is_not(None))
        .order_by(Job.device)
    )
    return {
        job.device: OnDevice(
            device=job.device,
            kind=job.kind,
            experiment=None
            if job.experiment_id is None
            else format_label(Noun.EXPERIMENT, job.experiment_id),
            hypothesis=None if hypothesis is None else format_label(Noun.HYPOTHESIS, hypothesis),
            claim=claim,
            stage=stage,
            started_at=job.started_at,
        )
        for job, stage, hypothesis, claim in session.execute(query)
        if job.device is not None
    }


def devices_of_experiments(session: Session, experiment_ids: Collection[int]) -> dict[int, str]:
    """Where experiments run or ran, such as `desk/cuda:1`; of one that waits for a worker the device that it
    waits for. One statement."""
    query = (
        select(Job.experiment_id, func.coalesce(Job.device, Job.device_class))
        .where(Job.experiment_id.in_(experiment_ids))
        .order_by(Job.id)
    )
    return {number: device for number, device in session.execute(query) if number is not None}


def devices_of_tests(session: Session, hypothesis_ids: Collection[int]) -> dict[int, str]:
    """The same of hypotheses under test, by hypothesis: where the newest test of each is, or what confirms it
    on the target that it is for."""
    query = (
        select(Experiment.hypothesis_id, func.coalesce(Job.device, Job.device_class))
        .join(Job, Job.experiment_id == Experiment.id)
        .join(Hypothesis, Hypothesis.id == Experiment.hypothesis_id)
        .where(
            Experiment.hypothesis_id.in_(hypothesis_ids),
            or_(
                Experiment.kind == ExperimentKind.TEST,
                (Experiment.kind == ExperimentKind.PROMOTE) & (Hypothesis.target != ""),
            ),
        )
        .order_by(Job.id)
    )
    return {number: device for number, device in session.execute(query) if number is not None}


def held_tests(session: Session, hypothesis_ids: Collection[int]) -> dict[int, str]:
    """Why nobody submits the test of these yet, by hypothesis, as the worker of its target said last."""
    query = (
        select(Experiment.hypothesis_id, JobQuote.waits_because, Job.id, JobQuote.needs_approval)
        .join(Job, Job.experiment_id == Experiment.id)
        .join(JobQuote, JobQuote.job_id == Job.id)
        .where(
            Experiment.hypothesis_id.in_(hypothesis_ids),
            Job.state == JobState.QUEUED,
            JobQuote.waits_because.is_not(None),
        )
        .order_by(Job.id)
    )
    return {
        number: f"{why} Approve it with: autoinfer approve {format_label(Noun.JOB, job_id)}"
        if asks
        else str(why)
        for number, why, job_id, asks in session.execute(query)
        if number is not None
    }


def devices_left_out(session: Session, campaign_id: int) -> frozenset[str]:
    """Devices that a campaign has left out since it was last resumed."""
    resumed = (
        select(func.coalesce(func.max(Event.id), 0))
        .where(of_kind(EventKind.CAMPAIGN_RESUMED, campaign_id))
        .scalar_subquery()
    )
    told = select(Event.data).where(of_kind(EventKind.CAMPAIGN_DEVICE_OUT, campaign_id), Event.id > resumed)
    return frozenset(str((data or {}).get("device")) for data in session.scalars(told))


def devices_at_rest(session: Session, campaign_id: int) -> tuple[AtRest, ...]:
    """Devices that a campaign has at rest, whichever of its loops found them used by others, first the one
    that rests for longest; one statement."""
    kinds = (EventKind.CAMPAIGN_DEVICE_RESTS, EventKind.CAMPAIGN_DEVICE_BACK)
    found: dict[str, AtRest] = {}
    for event in session.scalars(select(Event).where(of_kinds(kinds, campaign_id)).order_by(Event.id)):
        data = event.data or {}
        device = str(data.get("device"))
        found.pop(device, None)
        if event.kind == EventKind.CAMPAIGN_DEVICE_RESTS:
            found[device] = AtRest(
                device=device,
                since=event.at,
                in_a_row=int(data.get("in_a_row", 1)),
                event_id=event.id,
                told=event.text,
            )
    return tuple(found.values())


def rests_of(session: Session, campaign: Campaign) -> tuple[AtRest, ...]:
    """What a campaign waits for of its devices now: none where it has ended, and of those left out."""
    devices = devices_of_campaign(campaign)
    if campaign.state is CampaignState.STOPPED or devices == (CPU,):
        return ()
    out = devices_left_out(session, campaign.id) if len(devices) > 1 else frozenset()
    return tuple(each for each in devices_at_rest(session, campaign.id) if each.device not in out)


def devices_of_campaign(campaign: Campaign) -> tuple[str, ...]:
    """The devices that a stored campaign names, in its order."""
    return tuple(str(campaign.spec.get("target", "")).split(","))
