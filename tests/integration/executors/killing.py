"""What must hold wherever a worker of rented machines is killed, for every provider: a suite to inherit from.

    class TestMine(WorkersKilled):
        target = "mine:cpu"
        def words(self, place): ...      # for tests.simulated.rented_worker_main
        def worked(self, place): ...     # how many bodies did paid work

The worker is a process that gets SIGKILL at a named point; the next one, another process, goes on. The job
runs the simulated engine on the provider's fake, and its rows go into a real database.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from db import money
from db.models import RemoteRun
from db.session import Database
from db.states import BudgetScope, JobState, RemoteRunState
from experiments.kill_points import KILL_VARIABLE, KillPoint
from tests.integration.executors.conformance import ExecutorPlace
from tests.integration.worker.processes import (
    REPOSITORY,
    all_done,
    assert_recorded_once,
    events_of,
    job_states,
)
from tests.new_database import database_url, new_database
from tests.outliving import not_outliving
from tests.simulated.queueing import enqueue_job, start_campaign
from tests.simulated.specs import a_test_job

NOT_SUBMITTED = (KillPoint.BEFORE_SUBMIT, KillPoint.BEFORE_REMOTE_SUBMIT)
REF_NOT_STORED = (KillPoint.BEFORE_REF_STORED, KillPoint.AFTER_SUBMIT)
REF_STORED = (KillPoint.WHILE_RUNNING, KillPoint.BEFORE_RESULT, KillPoint.BETWEEN_RESULT_AND_STATE)

ONCE = (KillPoint.BEFORE_SUBMIT, KillPoint.BEFORE_RESULT, KillPoint.BETWEEN_RESULT_AND_STATE)
"""Points that know nothing of the provider: what is asked at them of every provider in `make bench` is asked
of one in each run (`tests/integration/remote`)."""

OF_A_SUBMIT = (KillPoint.BEFORE_REMOTE_SUBMIT, KillPoint.AFTER_SUBMIT)
"""Points that are asked of a provider's whole worker in `make bench`. In each run its submit alone is
killed before it goes out (`test_a_process_killed_at_a_named_point_…`), and the worker before the ref is
stored, so that the next one must find the run at the provider as it must after a submit."""

OF_A_RUN = (KillPoint.WHILE_RUNNING,)
"""Asked of a provider's whole worker in `make bench`. In each run the process that submitted is killed while
its job runs (`test_a_process_killed_while_its_job_runs_…`), and so is a worker of the provider in files."""

IN_BENCH = (*ONCE, *OF_A_SUBMIT, *OF_A_RUN)

PATIENCE_S = 60.0


class WorkersKilled:
    target: str

    def words(self, place: Any) -> list[str]:
        raise NotImplementedError

    def worked(self, place: Any) -> int:
        raise NotImplementedError

    @pytest.fixture
    def database(self, tmp_path: Path) -> Iterator[Database]:
        opened = new_database(tmp_path / "here")
        yield opened
        opened.close()

    @pytest.mark.parametrize(
        "point",
        [
            pytest.param(point, marks=pytest.mark.bench_only if point in IN_BENCH else ())
            for point in (*NOT_SUBMITTED, *REF_NOT_STORED, *REF_STORED)
        ],
    )
    def test_the_next_worker_goes_on_with_the_run_of_one_killed_and_it_is_paid_once(
        self, place: ExecutorPlace, database: Database, tmp_path: Path, point: KillPoint
    ):
        with database.write() as session:
            money.set_budget(session, BudgetScope.TARGET, self.target, money.microusd(100.0), None)
        experiment, _ = enqueue_job(
            database,
            start_campaign(database),
            lambda **ids: a_test_job(device=self.target, **ids),
            device_class=self.target,
        )
        first = self.start(place, tmp_path, **{KILL_VARIABLE: point.value})
        assert first.wait(PATIENCE_S) == -signal.SIGKILL
        assert job_states(database) == {1: JobState.RUNNING}
        run = self.run(database)
        assert run.state is not RemoteRunState.ENDED
        assert (run.ref is not None) is (point in REF_STORED)
        second = self.start(place, tmp_path)
        try:
            place.wait_for(lambda: all_done(database))
        finally:
            second.terminate()
            assert second.wait(PATIENCE_S) == 0
        assert_recorded_once(database, [experiment])
        assert self.worked(place) == 1
        assert place.executor().reconcile() == []
        assert len(events_of(database, "job.taken_over")) == 1
        assert events_of(database, "job.requeued") == []
        run = self.run(database)
        assert (run.state, run.outcome) == (RemoteRunState.ENDED, "done")
        assert run.actual_microusd is not None
        assert 0 < run.actual_microusd <= run.reserved_microusd
        with database.read() as session:
            [budget] = money.budgets(session)
        assert (budget.spent, budget.reserved) == (run.actual_microusd, 0)

    def start(self, place: Any, folder: Path, **environment: str) -> "subprocess.Popen[bytes]":
        words = [database_url(folder / "here"), str(folder), *self.words(place)]
        return subprocess.Popen(
            not_outliving([sys.executable, "-m", "tests.simulated.rented_worker_main", *words]),
            cwd=REPOSITORY,
            env={**os.environ, **environment},
        )

    def run(self, database: Database) -> RemoteRun:
        with database.read() as session:
            return session.scalars(select(RemoteRun)).one()
