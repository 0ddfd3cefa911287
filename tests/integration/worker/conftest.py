from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from db.session import Database
from experiments.worker.worker import run_worker
from tests.integration.worker.in_process import TIMES, Work
from tests.integration.worker.processes import Workers, launches_alive, processes_of
from tests.simulated.places import simulated_executor
from tests.simulated.queueing import new_database, start_campaign
from tests.waiting import wait_for


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = new_database(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def campaign(database: Database) -> int:
    return start_campaign(database)


@pytest.fixture
def work(database: Database, tmp_path: Path) -> Iterator[Work]:
    """Runs the queue to its end."""
    executor = simulated_executor(tmp_path)
    yield partial(run_worker, database, executor, "cpu", times=TIMES, once=True)
    executor.close()


@pytest.fixture
def workers(tmp_path: Path, database: Database) -> Iterator[Workers]:
    made = Workers(tmp_path)
    yield made
    made.end()
    wait_for(lambda: not processes_of(tmp_path))
    wait_for(lambda: not launches_alive(tmp_path))
