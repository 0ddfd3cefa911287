"""Which folders of runs may go: only those that this database knows to have ended, and long enough ago."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import select

from db import queue
from db.models import Job
from db.session import Database
from db.states import JobState
from experiments.worker.claiming import run_key
from experiments.worker.run_folders import delete_runs, finished_runs
from tests.simulated.queueing import new_database

LATER = datetime.now(UTC) + timedelta(days=1)
EARLIER = datetime.now(UTC) - timedelta(days=1)


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return new_database(tmp_path)


def a_job(database: Database, root: Path, state: JobState | None, attempt: int = 1) -> Path:
    """A job in this state (None: it waits) and the folder of its run, with ten bytes in it."""
    with database.write() as session:
        job_id = queue.enqueue(session, "test", {})
        if state is not None:
            claimed = queue.claim(session, "worker", f"desk/{job_id}", ("cpu",), 30)
            assert claimed is not None
            if state is not JobState.RUNNING:
                queue.finish(session, claimed, state)
    with database.read() as session:
        created_at = session.scalars(select(Job.created_at).where(Job.id == job_id)).one()
    folder = root / run_key(database, job_id, created_at, attempt)
    (folder / "launches").mkdir(parents=True)
    (folder / "launches" / "log").write_bytes(b"ten bytes.")
    return folder


@pytest.mark.parametrize("state", [JobState.DONE, JobState.FAILED, JobState.CANCELLED])
def test_the_folder_of_an_ended_job_goes(database: Database, tmp_path: Path, state: JobState) -> None:
    folder = a_job(database, tmp_path / "jobs", state)
    (run,) = finished_runs(database, tmp_path / "jobs", LATER, alive=())
    assert (run.key, run.bytes) == (folder.name, 10)
    assert delete_runs([run]) == 10
    assert not folder.exists()


def test_all_attempts_of_an_ended_job_go(database: Database, tmp_path: Path) -> None:
    folder = a_job(database, tmp_path / "jobs", JobState.DONE, attempt=2)
    first = folder.with_name(folder.name.removesuffix("2") + "1")
    first.mkdir()
    found = finished_runs(database, tmp_path / "jobs", LATER, alive=())
    assert {run.path for run in found} == {first, folder}


@pytest.mark.parametrize("state", [JobState.RUNNING, None])
def test_the_folder_of_a_job_that_did_not_end_stays(
    database: Database, tmp_path: Path, state: JobState | None
) -> None:
    """Also where its processes are gone: its result may not be recorded yet."""
    a_job(database, tmp_path / "jobs", state)
    assert finished_runs(database, tmp_path / "jobs", LATER, alive=()) == []


def test_what_is_alive_or_ended_lately_stays(database: Database, tmp_path: Path) -> None:
    folder = a_job(database, tmp_path / "jobs", JobState.DONE)
    assert finished_runs(database, tmp_path / "jobs", LATER, alive={folder.name}) == []
    assert finished_runs(database, tmp_path / "jobs", EARLIER, alive=()) == []


def test_what_belongs_to_another_database_or_to_nobody_stays(database: Database, tmp_path: Path) -> None:
    a_job(database, tmp_path / "jobs", JobState.DONE)
    elsewhere = tmp_path / "elsewhere"
    other = a_job(new_database_in(elsewhere), tmp_path / "jobs", JobState.DONE)
    (tmp_path / "jobs" / "mine").mkdir()
    found = [run.path for run in finished_runs(database, tmp_path / "jobs", LATER, alive=())]
    assert len(found) == 1
    assert other not in found


def new_database_in(folder: Path) -> Database:
    folder.mkdir()
    return new_database(folder)


def test_no_folder_at_all_is_nothing_to_delete(database: Database, tmp_path: Path) -> None:
    assert finished_runs(database, tmp_path / "nothing", LATER, alive=()) == []
