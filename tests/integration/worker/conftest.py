from collections.abc import Iterator
from pathlib import Path

import pytest

from db.session import Database
from tests.integration.worker.processes import Workers, launches_alive, processes_of
from tests.simulated.queueing import new_database
from tests.waiting import wait_for


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = new_database(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def workers(tmp_path: Path, database: Database) -> Iterator[Workers]:
    made = Workers(tmp_path)
    yield made
    made.end()
    wait_for(lambda: not processes_of(tmp_path))
    wait_for(lambda: not launches_alive(tmp_path))
