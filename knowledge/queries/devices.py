"""What runs on which device, where experiments were measured, and which devices a campaign left out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.orm import Session

from configs.targets import CPU
from db.at_work import at_work
from db.campaign_owner import is_driven_at
from db.event_kinds import EventKind
from db.events import of_kinds
from db.labels import Noun, format_label
from db.models import Campaign, Event, Experiment, Hypothesis, Job, JobQuote
from db.states import CampaignState, ExperimentKind, JobState
from experiments.job.spec import BUILD
from knowledge.queries.building import BuildingView, building_of
from knowledge.queries.view import View


class OnDevice(View):
    """A job that runs on a device, such as `desk/cuda:0`; with its experiment, if it is for one, or what it
    builds, if it measures nothing."""

    device: str
    kind: str
    experiment: str | None
    hypothesis: str | None
    claim: str | None
    stage: str | None
    started_at: datetime | None
    building: BuildingView | None = None


class AtRest(View):
    """A device that others use and that a campaign gives no test until they are gone; `in_a_row` is how many
    experiments in a row found them there, `told` the event that says who they were as it began to rest.
    `interrupted`: nothing drives the campaign any more, so that nobody knows whether they still are there."""

    device: str
    since: datetime
    in_a_row: int
    event_id: int
    told: str
    interrupted: bool = False


@dataclass(frozen=True)
class DevicesAway:
    """Devices of a campaign that get no test: `out` were left out since it was last resumed, `at_rest` are
    used by others, first the one that rests for longest."""

    out: frozenset[str] = frozenset()
    at_rest: tuple[AtRest, ...] = ()


_AWAY_KINDS = (
    EventKind.CAMPAIGN_DEVICE_OUT,
    EventKind.CAMPAIGN_RESUMED,
    EventKind.CAMPAIGN_DEVICE_RESTS,
    EventKind.CAMPAIGN_DEVICE_BACK,
)


def on_devices(session: Session) -> dict[str, OnDevice]:
    """The job at work on each device that has one, by device; one statement."""
    return {each.device: each for each in _jobs_on_devices(session, at_work())}


def builds_of(session: Session, campaign_id: int) -> tuple[OnDevice, ...]:
    """What devices build for a campaign now, by the name of the device; one statement."""
    mine = (at_work(), Job.campaign_id == campaign_id, Job.kind == BUILD)
    return tuple(_jobs_on_devices(session, *mine))


def _jobs_on_devices(session: Session, *which: ColumnElement[bool]) -> list[OnDevice]:
    query = (
        select(Job, Experiment.stage, Hypothesis.id, Hypothesis.claim)
        .outerjoin(Experiment, Experiment.id == Job.experiment_id)
        .outerjoin(Hypothesis, Hypothesis.id == Experiment.hypothesis_id)
        .where(*which, Job.device.is_not(None))
        .order_by(Job.device)
    )
    return [
        OnDevice(
            device=job.device,
            kind=job.kind,
            experiment=None
            if job.experiment_id is None
            else format_label(Noun.EXPERIMENT, job.experiment_id),
            hypothesis=None if hypothesis is None else format_label(Noun.HYPOTHESIS, hypothesis),
            claim=claim,
            stage=stage,
            started_at=job.started_at,
            building=building_of(job.spec) if job.kind == BUILD else None,
        )
        for job, stage, hypothesis, claim in session.execute(query)
        if job.device is not None
    ]


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


def devices_away(session: Session, campaign_ids: Collection[int]) -> Mapping[int, DevicesAway]:
    """The devices that campaigns give no test, whichever of their loops said so, by campaign; one statement,
    and none for no campaign."""
    out: dict[int, set[str]] = defaultdict(set)
    rest: dict[int, dict[str, AtRest]] = defaultdict(dict)
    query = select(Event).where(of_kinds(_AWAY_KINDS, *campaign_ids)).order_by(Event.id)
    for event in session.scalars(query) if campaign_ids else ():
        number, data = event.campaign_id or 0, event.data or {}
        device = str(data.get("device"))
        match event.kind:
            case EventKind.CAMPAIGN_RESUMED:
                out[number].clear()
            case EventKind.CAMPAIGN_DEVICE_OUT:
                out[number].add(device)
            case EventKind.CAMPAIGN_DEVICE_BACK:
                rest[number].pop(device, None)
            case EventKind.CAMPAIGN_DEVICE_RESTS:
                rest[number].pop(device, None)  # the newest comes last
                rest[number][device] = AtRest(
                    device=device,
                    since=event.at,
                    in_a_row=int(data.get("in_a_row", 1)),
                    event_id=event.id,
                    told=event.text,
                )
    return {each: DevicesAway(frozenset(out[each]), tuple(rest[each].values())) for each in campaign_ids}


def why_out(session: Session, campaign_id: int) -> Mapping[str, str]:
    """Why devices of a campaign, or targets that it confirms on, get nothing until it is resumed, each in a
    sentence; one statement."""
    out: dict[str, str] = {}
    kinds = (EventKind.CAMPAIGN_RESUMED, EventKind.CAMPAIGN_DEVICE_OUT)
    for event in session.scalars(select(Event).where(of_kinds(kinds, campaign_id)).order_by(Event.id)):
        if event.kind == EventKind.CAMPAIGN_RESUMED:
            out.clear()
        else:
            out[str((event.data or {}).get("device"))] = event.text
    return out


def devices_at_rest(session: Session, campaign_id: int) -> tuple[AtRest, ...]:
    """Devices that a campaign has at rest, first the one that rests for longest; one statement."""
    return devices_away(session, (campaign_id,))[campaign_id].at_rest


def shown_away(
    session: Session, campaigns: Sequence[Campaign], present: datetime
) -> Mapping[int, DevicesAway]:
    """The same as they are shown at a moment: nothing rests where a campaign has ended, and nothing that is
    left out. One statement at most: a campaign on the processor has no such device, and none is left out of
    one alone."""
    asked = [
        each
        for each in campaigns
        if len(devices_of_campaign(each)) > 1
        or (each.state is not CampaignState.STOPPED and devices_of_campaign(each) != (CPU,))
    ]
    away = devices_away(session, [each.id for each in asked])
    shown = {each.id: DevicesAway() for each in campaigns}
    for each in asked:
        found = away[each.id]
        out = found.out if len(devices_of_campaign(each)) > 1 else frozenset()
        rest = () if each.state is CampaignState.STOPPED else found.at_rest
        interrupted = not is_driven_at(each, present)
        shown[each.id] = DevicesAway(
            out,
            tuple(
                one.model_copy(update={"interrupted": interrupted}) for one in rest if one.device not in out
            ),
        )
    return shown


def devices_of_campaign(campaign: Campaign) -> tuple[str, ...]:
    """The devices that a stored campaign names, in its order."""
    return tuple(str(campaign.spec.get("target", "")).split(","))
