"""Workers in the process of their test: how often they look, and one in a thread."""

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

from db.models import Experiment
from db.session import Database
from experiments.worker.settings import WorkerTimes
from experiments.worker.worker import run_worker
from tests.simulated.places import simulated_executor
from tests.waiting import PATIENCE_S

TIMES = WorkerTimes(lease_s=5, busy_poll_s=0.1, idle_poll_s=0.02, progress_s=0.05)

Work = Callable[..., int]


class Running:
    """A worker in a thread, and the means to stop it."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.stop = threading.Event()
        executor = simulated_executor(folder)
        work = partial(run_worker, database, executor, "cpu", times=TIMES, stop=self.stop)
        self.thread = threading.Thread(target=work)

    def __enter__(self) -> "Running":
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop.set()
        self.thread.join(PATIENCE_S)
        assert not self.thread.is_alive()


def stage_is(database: Database, experiment_id: int, stage: str) -> bool:
    with database.read() as session:
        return session.get_one(Experiment, experiment_id).stage == stage
