"""A campaign's loop turn by turn, without processes and sleeping: what happens meanwhile happens as it waits.

The loop, the database, the queue and the judge are the real ones; jobs are recorded by hand.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import select

from agent.campaign.loop import CampaignLoop, LoopTimes
from db import events
from db.event_kinds import EventKind
from db.models import Job
from db.session import Database
from db.states import JobState
from experiments.job.spec import TestJob
from experiments.measurement.evidence import Arm, LaunchRecord
from experiments.space.configuration import Configuration
from experiments.worker.cancelling import cancel
from knowledge.acts import steering
from tests.simulated.by_hand import launch, run_by_hand

MOST_TURNS_TO_STOP = 2
"""Turns of a loop that is to stop: learn what was cancelled, and end."""

TIMES = LoopTimes(busy_poll_s=0.5, idle_poll_s=0.05)


def alike(spec: TestJob) -> list[LaunchRecord]:
    """The candidate is as fast as the control."""
    return [
        launch(arm, Configuration.of(knobs), 10.0)
        for arm, knobs in ((Arm.CONTROL, spec.control), (Arm.CANDIDATE, spec.candidate))
    ]


@dataclass
class Bench:
    """A campaign with its baseline, and a loop whose waits are what the test does; `waited` are their lengths
    in seconds. After the last of them the user stops the campaign."""

    database: Database
    campaign_id: int
    waited: list[float] = field(default_factory=list)

    def drive(self, *meanwhile: Callable[[], None], attended: bool = True) -> str:
        steps = iter([*meanwhile, self.stop, *[self.nothing] * self.turns_to_stop()])

        def wait(seconds: float) -> None:
            self.waited.append(seconds)
            step = next(steps, None)
            assert step is not None, f"it did not stop within {self.turns_to_stop()} turns"
            step()

        return CampaignLoop(
            self.database,
            self.campaign_id,
            times=TIMES,
            wait=wait,
            clock=self.clock,
            attended=attended,
            **self.given(),
        ).run()

    def given(self) -> dict[str, Any]:
        """What its loop is given besides."""
        return {}

    def turns_to_stop(self) -> int:
        """Turns that its loop may take to stop, at most."""
        return MOST_TURNS_TO_STOP

    def clock(self) -> float:
        """Seconds by which nothing goes on but the waits."""
        return math.fsum(self.waited)

    def jobs(self) -> Sequence[Job]:
        with self.database.read() as session:
            alive = (JobState.QUEUED, JobState.RUNNING)
            mine = Job.campaign_id == self.campaign_id
            return session.scalars(select(Job).where(mine, Job.state.in_(alive))).all()

    def nothing(self) -> None:
        """Time goes by."""

    def pause(self) -> None:
        with self.database.write() as session:
            steering.pause_campaign(session, self.campaign_id)

    def resume(self) -> None:
        with self.database.write() as session:
            steering.resume_campaign(session, self.campaign_id)

    def finish(self) -> None:
        """The test that was dispatched comes to its end."""
        (job,) = self.jobs()
        assert job.experiment_id is not None
        run_by_hand(self.database, job.experiment_id, alike)

    def nothing_runs(self) -> None:
        assert not self.jobs()

    def one_runs(self) -> None:
        assert len(self.jobs()) == 1

    def stop(self) -> None:
        with self.database.write() as session:
            for job in session.scalars(select(Job).where(Job.state == JobState.QUEUED)):
                cancel(session, job.id, "The test is over.")
            steering.stop_campaign(session, self.campaign_id)

    def told(self, kind: EventKind) -> list[str]:
        with self.database.read() as session:
            return [event.text for event in events.read(session, kinds=[kind])]
