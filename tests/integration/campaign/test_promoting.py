"""A test confirmed on another target: what is asked before it is queued, what its verdict says of the first.

The database, the queue, the recording, the judge and the findings are the real ones. The second device is a
name that nobody has; jobs are recorded by hand.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch

import pytest
from sqlalchemy import select

from agent.campaign.confirm import Confirmation, conclude
from agent.campaign.learn import learn_test
from agent.campaign.promote import Asked, ask, promote
from db import events
from db.models import Finding, Verdict
from db.session import Database
from experiments.job.spec import TestJob
from experiments.measurement.evidence import Arm, LaunchRecord
from experiments.space.configuration import Configuration
from experiments.worker.settings import WorkerTimes
from experiments.worker.worker import run_worker
from tests.integration.campaign.test_preregistration import dispatch, propose
from tests.simulated.by_hand import LEASE_S, launch, measure_baseline
from tests.simulated.campaign import made_up_target, registered_here, start
from tests.simulated.places import simulated_executor

ORIGINAL = 2
THERE = "cuda:3"
KEY = "cuda:Made-up device:24 GB"

Launches = Callable[[TestJob], Sequence[LaunchRecord]]


def pairs(candidate_ms: float, machine: dict[str, object] | None = None, count: int = 6) -> Launches:
    """Launch pairs in which the control takes 10 ms, as enough of them as the plan asks for."""

    def launches(spec: TestJob) -> list[LaunchRecord]:
        found = []
        for index in range(count):
            for arm, knobs, ms in (
                (Arm.CONTROL, spec.control, 10.0),
                (Arm.CANDIDATE, spec.candidate, candidate_ms),
            ):
                record = launch(arm, Configuration.of(knobs), ms, index)
                found.append(replace(record, environment={"machine": machine} if machine else {}))
        return found

    return launches


@dataclass(frozen=True)
class Judged:
    """A campaign whose first hypothesis was tested on the processor."""

    database: Database
    campaign_id: int
    hypothesis_id: int

    folder: Path

    def ask(self, target: str = THERE) -> Asked:
        with (
            self.database.read() as session,
            registered_here(self.folder),
            patch("agent.campaign.elsewhere.find_target", made_up_target),
        ):
            return ask(session, ORIGINAL, target)

    def promote(self, target: str = THERE) -> int:
        asked = self.ask(target)
        with self.database.write() as session:
            return promote(session, asked, None, agreed=True)

    def conclude(self, fresh_id: int) -> Confirmation | str:
        with self.database.write() as session:
            return conclude(session, fresh_id)

    def confirm(self) -> Confirmation | str:
        fresh_id = self.promote()
        run(self.database, self.folder, THERE)
        return self.conclude(fresh_id)


def run(database: Database, folder: Path, device: str) -> None:
    """A worker of the device takes the next job: real processes of the simulated engine."""
    times = WorkerTimes(lease_s=LEASE_S, busy_poll_s=0.05, idle_poll_s=0.02)
    run_worker(database, simulated_executor(folder), device, times=times, once=True)


@pytest.fixture
def judged(tmp_path: Path) -> Iterator[Judged]:
    database, campaign_id = start(tmp_path)
    measure_baseline(database, campaign_id)
    hypothesis_id = propose(database, campaign_id, 7.0)
    assert dispatch(database, campaign_id, hypothesis_id) == ORIGINAL
    run(database, tmp_path, "cpu")
    with database.write() as session:
        learn_test(session, ORIGINAL)
    yield Judged(database, campaign_id, hypothesis_id, tmp_path)
    database.close()


def test_probe(judged: Judged) -> None:
    with judged.database.read() as session:
        print(session.scalars(select(Verdict)).one().outcome, session.scalars(select(Verdict.reason)).one())
    print(judged.confirm())
    with judged.database.read() as session:
        for f in session.scalars(select(Finding)):
            print(f.claim, f.scope["target"])
        for e in events.read(session):
            print(e.kind, e.text)
    assert 0
