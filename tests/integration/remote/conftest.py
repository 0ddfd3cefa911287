"""A provider in files, its jobs in a real database, and workers as real processes."""

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from db import money
from db.session import Database, open_database
from db.states import BudgetScope
from experiments.executors.local import LocalExecutor
from experiments.executors.port import RunState
from tests.integration.worker.processes import REPOSITORY
from tests.new_database import database_url, new_database
from tests.outliving import not_outliving
from tests.postgresql import MISSING, programs, serving
from tests.simulated.places import simulated_executor
from tests.simulated.queueing import enqueue_job, start_campaign
from tests.simulated.remote_executor import FileProvider
from tests.simulated.remote_worker_main import TARGET
from tests.simulated.specs import a_test_job
from tests.waiting import wait_for

LEASE_S = 1.0


@pytest.fixture(scope="session")
def records(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What one real job of the simulated engine told: the result of every run of the provider."""
    executor: LocalExecutor = simulated_executor(tmp_path_factory.mktemp("one-job"))
    ref = executor.submit("one", a_test_job())
    wait_for(lambda: executor.poll(ref).state is RunState.DONE)
    executor.close()
    return (executor.root / ref / "records.jsonl").read_bytes()


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = new_database(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def provider(tmp_path: Path, records: bytes) -> FileProvider:
    made = FileProvider(tmp_path / "jobs", target=TARGET)
    (made.cloud / "records.jsonl").write_bytes(records)
    return made


@pytest.fixture
def campaign(database: Database) -> int:
    return start_campaign(database)


def give_budget(database: Database, usd: float, approve_above: float | None = None) -> None:
    with database.write() as session:
        above = None if approve_above is None else money.microusd(approve_above)
        money.set_budget(session, BudgetScope.TARGET, TARGET, money.microusd(usd), above)


def enqueue(database: Database, campaign: int, **more: object) -> tuple[int, int]:
    """An experiment and its job for the provider's target."""
    return enqueue_job(database, campaign, partial(a_test_job, **more), device_class=TARGET)


class RemoteWorkers:
    """Starts remote workers over one folder; `end` kills what is left of them."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, *words: str, lease_s: float = LEASE_S, **environment: str) -> subprocess.Popen[bytes]:
        module = [sys.executable, "-m", "tests.simulated.remote_worker_main"]
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

    @property
    def said(self) -> str:
        return (self.folder / "workers.log").read_text()

    def end(self) -> None:
        for process in self.started:
            process.kill()
            process.wait()


@pytest.fixture
def workers(tmp_path: Path, database: Database) -> Iterator[RemoteWorkers]:
    made = RemoteWorkers(tmp_path, database_url(tmp_path))
    yield made
    made.end()


@pytest.fixture(scope="session")
def postgresql() -> Iterator[object]:
    """A server of the machine's own programs."""
    if programs() is None:
        pytest.skip(MISSING)
    with serving() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def any_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a new database of each kind; a test may name the kinds itself."""
    if request.param == "sqlite":
        new_database(tmp_path).close()
        return database_url(tmp_path)
    server = request.getfixturevalue("postgresql")
    return str(server.url(server.new_database()))


@pytest.fixture
def any_database(any_url: str) -> Iterator[Database]:
    opened = open_database(any_url)
    yield opened
    opened.close()


@pytest.fixture
def any_workers(tmp_path: Path, any_url: str) -> Iterator[RemoteWorkers]:
    made = RemoteWorkers(tmp_path, any_url)
    yield made
    made.end()
