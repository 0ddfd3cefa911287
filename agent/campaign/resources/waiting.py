"""What a campaign waits for: whether anyone takes its jobs, giving them up when it is to end, and what the
user approves."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.campaign.resources.devices import of_its_loop, of_its_queue
from configs.quantities import format_duration
from configs.targets import is_rented
from db import events
from db.clock import after
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Experiment, Job, Worker
from db.states import ExperimentKind, JobState, WorkerState
from experiments.worker.cancelling import cancel, end_measuring

SILENT_S = 120.0
"""Seconds without a sign of life after which a worker is taken as gone. A busy one gives three a lease, and
leases are 30 s to 60 s."""

MOST_NAMED = 5
"""Hypotheses that a command to approve them names."""

OVERRUN_SHARE, LEAST_OVERRUN_S, MOST_OVERRUN_S = 0.1, 60.0, 600.0
"""By how much of its budget a test that runs as it is spent may overrun it, and by how many seconds at least
and at most: its verdict is near, for it was begun because it was expected to fit. By how much one estimate is
wrong does not grow with the budget: a tenth of 8 hours alone would be 48 minutes. Judgements."""


def nobody_takes(session: Session, campaign_id: int, *, elsewhere: bool = False) -> str | None:
    """The device of a job of the campaign that waits and for which no live worker is there; None for none.
    `elsewhere`: of those that its queue sent to confirm something on another target.
    """
    waiting = select(Job.device_class).where(
        Job.campaign_id == campaign_id,
        Job.state == JobState.QUEUED,
        of_its_queue() if elsewhere else of_its_loop(),
    )
    wanted = list(session.scalars(waiting.order_by(Job.id)))
    if not wanted:
        return None
    served = _names(served_devices(session))
    return next((each for each in wanted if each not in served), None)


def is_served(session: Session, device: str) -> bool:
    """Whether a live worker takes jobs for this device or rented target."""
    return device in _names(served_devices(session))


def to_start_one(device: str) -> str:
    """The command that starts a worker for a device or rented target."""
    return f"autoinfer worker --{'target' if is_rented(device) else 'device'} {device}"


def _names(devices: Collection[str]) -> set[str]:
    """What jobs for these devices may ask for: each of them, or any of its kind."""
    return {name for device in devices for name in (device, device.partition(":")[0])}


def come_first(session: Session, campaign_id: int, devices: Collection[str]) -> str | None:
    """What to say of other campaigns' jobs that wait for, or run on, these devices: what came first is run
    first, whoever drives its campaign; None where there are none."""
    query = (
        select(Job.campaign_id)
        .where(
            Job.campaign_id != campaign_id,
            Job.state.in_((JobState.QUEUED, JobState.RUNNING)),
            Job.device_class.in_({name for each in devices for name in (each, each.partition(":")[0])}),
        )
        .distinct()
        .order_by(Job.campaign_id)
    )
    labels = [format_label(Noun.CAMPAIGN, each) for each in session.scalars(query) if each is not None]
    if not labels:
        return None
    named = ", ".join(labels)
    return (
        f"Before this campaign's first job come those of {named} that wait or run, and its budget passes "
        f"meanwhile. One that nobody goes on with gives its own up by: autoinfer campaign stop {labels[0]}"
    )


def served_devices(session: Session) -> tuple[str, ...]:
    """The devices and rented targets that live workers take jobs for, each once."""
    present = select(Worker.device).where(
        Worker.state.in_((WorkerState.IDLE, WorkerState.BUSY)), Worker.heartbeat_at > after(-SILENT_S)
    )
    return tuple(sorted(set(session.scalars(present))))


def overdue(session: Session, campaign_id: int, *, running_too: bool) -> list[int]:
    """Jobs of a campaign that ends to give up: those that wait, and those that run too where nothing is to be
    learnt from them any more. What was given up before is left out."""
    states = (JobState.QUEUED, JobState.RUNNING) if running_too else (JobState.QUEUED,)
    query = select(Job.id).where(
        Job.campaign_id == campaign_id,
        Job.state.in_(states),
        Job.cancel_requested.is_(False),
        of_its_loop(),
    )
    return list(session.scalars(query.order_by(Job.id)))


def overrunning(session: Session, campaign_id: int, left_s: float, wall_s: float) -> list[int]:
    """Tests of a campaign that still run although its budget of `wall_s`, of which `left_s` are left, is
    overrun by more than they may; those that were asked to end before are left out."""
    if -left_s < overrun_s(wall_s):
        return []
    query = (
        select(Job.id)
        .join(Experiment, Experiment.id == Job.experiment_id)
        .where(
            Job.campaign_id == campaign_id,
            Job.state == JobState.RUNNING,
            Job.cancel_requested.is_(False),
            Experiment.kind == ExperimentKind.TEST,
        )
    )
    return list(session.scalars(query.order_by(Job.id)))


def overrun_s(wall_s: float) -> float:
    """Seconds by which a test that runs may overrun a budget of `wall_s`."""
    return min(max(OVERRUN_SHARE * wall_s, LEAST_OVERRUN_S), MOST_OVERRUN_S)


def end_overrunning(session: Session, job_ids: list[int], wall_s: float) -> None:
    """Ask these tests to end with what they measured, and say so."""
    for job_id in job_ids:
        end_measuring(session, job_id, overran(wall_s))
        job = session.get_one(Job, job_id)
        label = format_label(Noun.EXPERIMENT, job.experiment_id or 0)
        text = f"{label} ends with what it measured: {overran(wall_s)}"
        events.append(session, EventKind.EXPERIMENT_CUT_SHORT, text, label, job.campaign_id)


def overran(wall_s: float) -> str:
    """Why a test is ended that overruns the budget, as a clause."""
    budget, most = format_duration(wall_s), format_duration(round(overrun_s(wall_s)))
    return f"the budget of {budget} was spent {most} before, and no test may overrun it by more"


def give_up(session: Session, job_ids: list[int], why: str) -> None:
    """Cancel these jobs: those that wait at once; the worker of one that runs ends it."""
    for job_id in job_ids:
        cancel(session, job_id, why)


def give_up_at_its_end(session: Session, job_ids: list[int], ended: str) -> None:
    """Cancel these jobs of a campaign that `ended`, such as "was stopped", as `give_up`; the reason says
    whether a job was still waiting or had begun."""
    for job_id in job_ids:
        began = session.get_one(Job, job_id).state is JobState.RUNNING
        before = "it was done" if began else "a worker took it"
        give_up(session, [job_id], f"The campaign {ended} before {before}.")


def approve_command(hypothesis_ids: Sequence[int]) -> str:
    """How the user approves these, or the first of them, where they are many."""
    labels = [format_label(Noun.HYPOTHESIS, each) for each in hypothesis_ids[:MOST_NAMED]]
    return f"autoinfer approve {' '.join(labels)}"
