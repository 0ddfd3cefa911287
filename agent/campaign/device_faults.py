"""When a campaign gives a device up: a lost GPU at once, one that others use after a few tries.

Where it has others it goes on with those; with its last device it ends.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.campaign.devices import Devices, device_of, leave_out, without
from db.models import Experiment, Job
from db.states import ExperimentState
from experiments.engines.port import DEVICE_BUSY, DEVICE_LOST

MOST_BUSY = 3
"""Experiments in a row that may find others on a device, each after it has waited for them, before the
campaign gives it up instead of trying again."""


@dataclass(frozen=True)
class GaveOut:
    """A device that can't be measured on any more: lost, or used by others; `told` is the last cause."""

    device: str
    lost: bool
    told: str

    def why(self, named: str) -> str:
        """What happened to it, as a clause in which it is called `named`."""
        if self.lost:
            return f"{named} was lost: {self.told}"
        return f"{MOST_BUSY} experiments in a row found {named} used by others: {self.told}"


def device_gave_out(session: Session, experiment_id: int) -> GaveOut | None:
    """Which device gave out in this experiment, None where none did. Its hypothesis waits again."""
    experiment = session.get_one(Experiment, experiment_id)
    device = device_of(session, experiment_id)
    told = (experiment.failure or "").rstrip(".")
    if device is None:
        return None
    if experiment.failure_kind == DEVICE_LOST:
        return GaveOut(device, lost=True, told=told)
    if experiment.failure_kind != DEVICE_BUSY:
        return None
    latest = session.scalars(
        select(Experiment.failure_kind)
        .join(Job, Job.experiment_id == Experiment.id)
        .where(
            Experiment.campaign_id == experiment.campaign_id,
            Experiment.id <= experiment_id,
            Experiment.state != ExperimentState.CANCELLED,
            Job.device_class == device,
        )
        .order_by(Experiment.id.desc())
        .limit(MOST_BUSY)
    ).all()
    if len(latest) < MOST_BUSY or any(kind != DEVICE_BUSY for kind in latest):
        return None
    return GaveOut(device, lost=False, told=told)


def give_up_device(session: Session, campaign_id: int, devices: Devices, gone: GaveOut) -> str | None:
    """Leave a device out; the reason to end where it was the last one, None where the campaign goes on."""
    if len(devices.every) == 1:
        return gone.why("its device")
    rest = without(devices, (gone.device,))
    if gone.device not in devices.out:
        leave_out(session, campaign_id, gone.device, gone.why("it"), rest)
    return None if rest else f"none of its {len(devices.every)} devices is left: {gone.why(gone.device)}"
