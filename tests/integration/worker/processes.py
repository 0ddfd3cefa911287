"""Workers as real processes, and what must be left when everything is over."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
from sqlalchemy import func, select

from db.models import Event, Experiment, Job, Launch, Measurement, NoiseLaunch
from db.session import Database
from db.states import ExperimentState, JobState
from experiments.job.running_job import LAUNCH_LOGS
from tests.outliving import not_outliving
from tests.simulated.queueing import database_url

REPOSITORY = Path(__file__).parents[3]
LEASE_S = 1.0
"""Short, so that a takeover takes no longer than that; a worker beats three times within it."""


class Workers:
    """Starts worker processes over one folder; `end` kills what is left of them.

    `url` is the database, that of the folder if not given.
    """

    def __init__(self, folder: Path, url: str | None = None) -> None:
        self.folder = folder
        self.url = url or database_url(folder)
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, *words: str, lease_s: float = LEASE_S, **environment: str) -> subprocess.Popen[bytes]:
        module = [sys.executable, "-m", "tests.simulated.worker_main"]
        arguments = [self.url, str(self.folder), str(lease_s), *words]
        with (self.folder / "workers.log").open("ab") as log:
            process = subprocess.Popen(
                not_outliving([*module, *arguments]),
                cwd=REPOSITORY,
                env={**os.environ, **environment},
                stderr=log,
            )
        self.started.append(process)
        return process

    def end(self) -> None:
        for process in self.started:
            process.kill()
            process.wait()


def processes_of(folder: Path) -> list[psutil.Process]:
    """All leaders and jobs of runs below `folder`; launches, which have logs of their own, are not in it."""
    return [each for each, log in _speaking_below(folder / "jobs") if LAUNCH_LOGS not in log.parts]


def launches_alive(folder: Path) -> set[int]:
    """The processes of the simulated engine that runs below `folder` have launched."""
    return {each.pid for each, log in _speaking_below(folder / "jobs") if LAUNCH_LOGS in log.parts}


def _speaking_below(root: Path) -> Iterator[tuple[psutil.Process, Path]]:
    """Processes whose output goes to a file below `root`, and that file."""
    for process in psutil.process_iter(["status"]):
        try:
            log = Path(os.readlink(f"/proc/{process.pid}/fd/1"))
        except OSError:
            continue
        if log.is_relative_to(root) and process.info["status"] != psutil.STATUS_ZOMBIE:
            yield process, log


def job_states(database: Database) -> dict[int, JobState]:
    with database.read() as session:
        return {row.id: row.state for row in session.execute(select(Job.id, Job.state))}


def all_done(database: Database) -> bool:
    return set(job_states(database).values()) == {JobState.DONE}


def assert_recorded_once(database: Database, experiment_ids: list[int]) -> None:
    """Every experiment has the samples of exactly one attempt: nothing lost, nothing doubled."""
    with database.read() as session:
        for experiment_id in experiment_ids:
            assert session.get_one(Experiment, experiment_id).state is ExperimentState.DONE
            attempts = session.execute(
                select(Launch.attempt, func.count())
                .where(Launch.experiment_id == experiment_id)
                .group_by(Launch.attempt)
            ).all()
            assert len(attempts) == 1, f"experiment {experiment_id} was recorded by {len(attempts)} attempts"
            assert attempts[0][1] == 4, "a pair and its evaluation"
            samples = session.execute(
                select(func.count())
                .select_from(Measurement)
                .join(Launch)
                .where(Launch.experiment_id == experiment_id, Launch.stage == "quick")
            ).scalar_one()
            assert samples == 2 * 2 * (2 * (3 + 4) + 3), (
                "2 arms × 2 blocks × (2 prompts × (3 gaps and 4 totals) and 3 rates of the block)"
            )
            noise = (
                select(func.count())
                .select_from(NoiseLaunch)
                .where(NoiseLaunch.experiment_id == experiment_id)
            )
            assert session.execute(noise).scalar_one() == 1


def events_of(database: Database, kind: str) -> list[str]:
    with database.read() as session:
        return list(
            session.execute(select(Event.text).where(Event.kind == kind).order_by(Event.id)).scalars()
        )
