"""When a campaign gives a device up: a lost GPU and one whose machine has a full disk at once, a rented one
that others use after a few tries.

Where it has others it goes on with those; with its last device it ends. A device of one's own that others use
is not given up: it rests (`agent.campaign.device_rests`).
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.campaign.resources.devices import Devices, device_of, leave_out, without
from configs.targets import is_rented
from db.labels import Noun, format_label
from db.models import Experiment, Job
from db.states import ExperimentState
from experiments.disk import DISK_FULL
from experiments.engines.port import DEVICE_BUSY, DEVICE_FAULTS, DEVICE_LOST

MOST_BUSY = 3
"""Experiments in a row that may find others on a rented device before the campaign gives it up: each of them
is paid for, and nobody else is to be expected there."""

AT_ONCE = (DEVICE_LOST, DISK_FULL)
"""Failures with which a device is given up at once, until the campaign is taken up again: what is tried on it
next ends so too."""

WAITS_AGAIN = (*DEVICE_FAULTS, DISK_FULL)
"""Failures that say nothing of the hypothesis and nothing against testing it: it waits in the queue again."""


@dataclass(frozen=True)
class GaveOut:
    """A device that can't be measured on any more, by the `kind` of its failure: lost, without room on its
    machine's disk, or used by others; `told` is the last cause."""

    device: str
    kind: str
    told: str

    @property
    def at_once(self) -> bool:
        """Whether one experiment was enough, the baseline too."""
        return self.kind in AT_ONCE

    def why(self, named: str) -> str:
        """What happened to it, as a clause in which it is called `named`."""
        if self.kind == DISK_FULL:
            return f"{named} has no room on its machine's disk: {self.told}"
        if self.kind == DEVICE_LOST:
            return f"{named} was lost: {self.told}"
        return f"{MOST_BUSY} experiments in a row found {named} used by others: {self.told}"


@dataclass(frozen=True)
class FoundOthers:
    """A device on which an experiment found others, `in_a_row` experiments now; `told` is who they are."""

    device: str
    in_a_row: int
    told: str


def device_gave_out(session: Session, experiment_id: int) -> GaveOut | None:
    """Which device gave out in this experiment, None where none did. Its hypothesis waits again."""
    experiment = session.get_one(Experiment, experiment_id)
    device = device_of(session, experiment_id)
    if device is None:
        return None
    if experiment.failure_kind in AT_ONCE:
        return GaveOut(device, experiment.failure_kind, (experiment.failure or "").rstrip("."))
    found = found_others(session, experiment_id)
    if found is None or not is_rented(device) or found.in_a_row < MOST_BUSY:
        return None
    return GaveOut(device, DEVICE_BUSY, found.told)


def found_others(session: Session, experiment_id: int) -> FoundOthers | None:
    """Which device this experiment found used by others, None where it found none so."""
    experiment = session.get_one(Experiment, experiment_id)
    device = device_of(session, experiment_id)
    if device is None or experiment.failure_kind != DEVICE_BUSY:
        return None
    on_it = (
        select(Experiment.id)
        .join(Job, Job.experiment_id == Experiment.id)
        .where(
            Experiment.campaign_id == experiment.campaign_id,
            Experiment.id <= experiment_id,
            Experiment.state != ExperimentState.CANCELLED,
            Job.device_class == device,
        )
    )
    was_alone = Experiment.failure_kind.is_(None) | (Experiment.failure_kind != DEVICE_BUSY)
    alone = session.scalar(on_it.where(was_alone).order_by(Experiment.id.desc()).limit(1)) or 0
    since = session.scalars(on_it.where(Experiment.id > alone)).all()
    return FoundOthers(device, len(set(since)), (experiment.failure or "").rstrip("."))


def give_up_device(session: Session, campaign_id: int, devices: Devices, gone: GaveOut) -> str | None:
    """Leave a device out; the reason to end where it was the last one, None where the campaign goes on."""
    if len(devices.every) == 1:
        return f"{gone.why('its device')}{_then(gone, campaign_id)}"
    rest = without(devices, (gone.device,))
    if gone.device not in devices.out:
        leave_out(session, campaign_id, gone.device, gone.why("it"), rest)
    if rest:
        return None
    why = f"none of its {len(devices.every)} devices is left: {gone.why(gone.device)}"
    return f"{why}{_then(gone, campaign_id)}"


def _then(gone: GaveOut, campaign_id: int) -> str:
    """What follows the hint to make room."""
    return f". {go_on_after_room(campaign_id)}" if gone.kind == DISK_FULL else ""


def go_on_after_room(campaign_id: int) -> str:
    """How a campaign that a full disk ended goes on."""
    label = format_label(Noun.CAMPAIGN, campaign_id)
    return f"When there is room it goes on with: autoinfer run --resume {label}"
