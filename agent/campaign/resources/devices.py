"""The devices of a campaign: which of them takes the next test, which is at work, which is out.

One test flies on a device at a time, and all of its launches are on that device: the arms are paired within
it. A device is out after it was lost, until the campaign is resumed; it rests while others use it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, or_, select
from sqlalchemy.orm import Session, aliased

from configs.targets import CPU
from db import events
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Experiment, Hypothesis, Job
from db.states import ExperimentKind, JobState
from knowledge.queries.devices import DevicesAway, devices_away

ALIVE = (JobState.QUEUED, JobState.RUNNING)
"""States of a job that is out: its device is not free for another of the campaign."""


@dataclass(frozen=True)
class Devices:
    """The devices of a campaign in the order of its target, at one moment.

    `own` have a job of the campaign, waiting or running; `others` run one of somebody else's; `out` are left
    out; `at_rest` are used by others.
    """

    every: tuple[str, ...]
    own: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()
    out: frozenset[str] = frozenset()
    at_rest: frozenset[str] = frozenset()

    @property
    def usable(self) -> tuple[str, ...]:
        """Those that are not out."""
        return tuple(each for each in self.every if each not in self.out)

    @property
    def free(self) -> tuple[str, ...]:
        """Those that may get a test, first those on which nobody else measures: there it waits its turn."""
        mine = [each for each in self.usable if each not in self.own and each not in self.at_rest]
        return tuple(sorted(mine, key=lambda each: each in self.others))

    @property
    def is_all_taken(self) -> bool:
        """Whether every usable device has a job of this campaign or of another, or rests."""
        return all(each in self.own | self.others | self.at_rest for each in self.usable)

    @property
    def all_rest(self) -> bool:
        """Whether others use every device that is left."""
        return bool(self.usable) and all(each in self.at_rest for each in self.usable)


def devices_now(session: Session, campaign_id: int, every: tuple[str, ...]) -> Devices:
    """The campaign's devices as they are now; a few statements."""
    jobs = session.execute(
        select(Job.device_class, Job.campaign_id, Job.state).where(
            Job.state.in_(ALIVE), Job.device_class.in_(every)
        )
    ).all()
    away = DevicesAway() if every == (CPU,) else devices_away(session, (campaign_id,))[campaign_id]
    return Devices(
        every,
        own=frozenset(row.device_class for row in jobs if row.campaign_id == campaign_id),
        others=frozenset(
            row.device_class
            for row in jobs
            if row.campaign_id != campaign_id and row.state is JobState.RUNNING
        ),
        out=away.out if len(every) > 1 else frozenset(),
        at_rest=frozenset(each.device for each in away.at_rest),
    )


def of_its_loop() -> ColumnElement[bool]:
    """Jobs but those that confirm something on another target, or say that again there: nothing of the loop's
    own waits for them, and those that somebody asked for end neither with the campaign nor with its budget of
    time."""
    first = aliased(Experiment)
    promoted = (
        select(Experiment.id)
        .outerjoin(first, first.id == Experiment.reproduces_experiment_id)
        .where(or_(Experiment.kind == ExperimentKind.PROMOTE, first.kind == ExperimentKind.PROMOTE))
    )
    return or_(Job.experiment_id.is_(None), Job.experiment_id.not_in(promoted))


def of_its_queue() -> ColumnElement[bool]:
    """Jobs that confirm something on another target because the campaign's own queue says so."""
    sent = (
        select(Experiment.id)
        .join(Hypothesis, Hypothesis.id == Experiment.hypothesis_id)
        .where(Experiment.kind == ExperimentKind.PROMOTE, Hypothesis.target != "")
    )
    return Job.experiment_id.in_(sent)


def device_of(session: Session, experiment_id: int) -> str | None:
    """The device that an experiment was given to; None where it has no job."""
    query = select(Job.device_class).where(Job.experiment_id == experiment_id)
    return session.scalar(query.order_by(Job.id.desc()).limit(1))


def leave_out(
    session: Session, campaign_id: int, device: str, why: str, goes_on_with: Sequence[str] = ()
) -> None:
    """Give the device no test any more until the campaign is resumed, and say so."""
    rest = f"; the campaign goes on with {' and '.join(goes_on_with)}" if goes_on_with else ""
    events.append(
        session,
        EventKind.CAMPAIGN_DEVICE_OUT,
        f"{device} is out, because {why}{rest}",
        format_label(Noun.CAMPAIGN, campaign_id),
        campaign_id,
        {"device": device, "why": why},
    )


def without(devices: Devices, gone: Collection[str]) -> tuple[str, ...]:
    """What is usable when these are gone too."""
    return tuple(each for each in devices.usable if each not in gone)
