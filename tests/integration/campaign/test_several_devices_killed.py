"""A loop or a worker killed with two tests in flight: real processes, devices that nobody has."""

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from sqlalchemy import func, select

from agent.campaign.loop import CampaignLoop
from db.models import Experiment, Job
from db.session import Database
from db.states import ExperimentKind
from experiments.kill_points import KILL_VARIABLE, ONCE_VARIABLE, KillPoint
from tests.integration.campaign.test_loop import assert_whole
from tests.integration.worker.processes import processes_of
from tests.simulated.by_hand import measure_baseline
from tests.simulated.campaign import drive, start

pytestmark = pytest.mark.timeout(600)

SPACE = """
name: small
knobs:
  - {name: simulated.tpot_ms, lever: kernel, values: [10.0, 9.9, 7.0], default: 10.0, help: The answer.}
"""

TWO = "cuda:0,cuda:1"


class _Interrupted(Exception):
    """The loop is left here."""


def dispatched(folder: Path, tests: int) -> tuple[Database, int]:
    """A campaign of which so many tests are in the queue, one a device, and that nobody drives."""
    database, campaign_id = start(folder, space_text=SPACE, target=TWO, **{"baseline.sweep": []})
    measure_baseline(database, campaign_id)

    def wait(seconds: float) -> None:
        if begun(database) == tests:
            raise _Interrupted

    with pytest.raises(_Interrupted):
        CampaignLoop(database, campaign_id, wait=wait).run()
    return database, campaign_id


def begun(database: Database) -> int:
    with database.read() as session:
        query = select(func.count()).where(Experiment.kind == ExperimentKind.TEST)
        return session.scalar(query) or 0


@pytest.mark.parametrize(
    ("point", "before"),
    [
        pytest.param(KillPoint.AFTER_DISPATCH, 1, marks=pytest.mark.bench_only),
        (KillPoint.BETWEEN_VERDICT_AND_STATE, 2),
        pytest.param(KillPoint.BEFORE_LEARNT, 2, marks=pytest.mark.bench_only),
    ],
)
def test_a_loop_killed_with_two_tests_in_flight_is_continued_without_loss(
    tmp_path: Path, point: KillPoint, before: int
) -> None:
    database, campaign_id = dispatched(tmp_path, before)
    argv = [sys.executable, "-P", "-m", "tests.simulated.campaign", str(tmp_path)]
    loop = subprocess.run(argv, env={**os.environ, KILL_VARIABLE: point.value}, timeout=120, check=False)
    assert loop.returncode == -signal.SIGKILL
    assert begun(database) == 2
    drive(database, tmp_path, campaign_id)
    assert_whole(tmp_path)
    assert_one_test_each(database)
    assert processes_of(tmp_path) == []


@pytest.mark.parametrize(
    "point",
    [
        pytest.param(KillPoint.AFTER_CLAIM, marks=pytest.mark.bench_only),
        KillPoint.BETWEEN_RESULT_AND_STATE,
    ],
)
def test_a_worker_killed_beside_another_loses_nothing(
    tmp_path: Path, point: KillPoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, campaign_id = dispatched(tmp_path, 2)
    monkeypatch.setenv(KILL_VARIABLE, point.value)
    monkeypatch.setenv(ONCE_VARIABLE, str(tmp_path / "once"))
    drive(database, tmp_path, campaign_id)
    assert (tmp_path / "once").exists()
    assert_whole(tmp_path)
    assert_one_test_each(database)
    assert processes_of(tmp_path) == []


def assert_one_test_each(database: Database) -> None:
    """No hypothesis was tested twice, and each job ran on the device that it was for."""
    with database.read() as session:
        tested = session.scalars(
            select(Experiment.hypothesis_id).where(Experiment.kind == ExperimentKind.TEST)
        ).all()
        jobs = session.execute(select(Job.device_class, Job.device).where(Job.device.is_not(None))).all()
    assert max(Counter(tested).values()) == 1
    assert {device.rpartition("/")[2] == wanted for wanted, device in jobs if device is not None} == {True}
