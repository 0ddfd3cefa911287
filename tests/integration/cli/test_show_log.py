"""`autoinfer show E-… --log` in every state of an experiment; runs lie as their executor leaves them."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

import pytest

from db import queue
from db.claims import ClaimedJob
from db.session import Database
from db.states import JobState
from experiments.worker.run_logs import runs_of
from tests.integration.cli.command import Autoinfer
from tests.simulated.queueing import enqueue_job, new_database, start_campaign
from tests.simulated.specs import a_test_job
from tests.waiting import PATIENCE_S

HERE = f"{socket.gethostname()}/cpu"


@pytest.fixture
def database(autoinfer: Autoinfer) -> Database:
    """With one experiment, E-0001, whose job waits."""
    autoinfer.data_dir.mkdir()
    database = new_database(autoinfer.data_dir)
    enqueue_job(database, start_campaign(database), a_test_job)
    return database


def begin(database: Database, data_dir: Path, text: str, device: str = HERE) -> tuple[ClaimedJob, Path]:
    """An attempt of the job, and its log."""
    with database.write() as session:
        job = queue.claim(session, "worker", device, ("cpu",), 60)
        assert job is not None
    runs = runs_of(database, 1)
    assert runs is not None
    log = data_dir / "jobs" / runs.keys[-1] / "log.txt"
    log.parent.mkdir(parents=True)
    log.write_text(text)
    return job, log


def finish(database: Database, job: ClaimedJob, state: JobState) -> None:
    with database.write() as session:
        queue.finish(session, job, state)


@pytest.mark.parametrize("state", [JobState.DONE, JobState.FAILED, JobState.CANCELLED, None])
def test_what_is_kept_is_printed_whatever_became_of_it(
    autoinfer: Autoinfer, database: Database, state: JobState | None
) -> None:
    job, _ = begin(database, autoinfer.data_dir, "quick: time launch pair 1\n[red] stays\n")
    if state is not None:
        finish(database, job, state)
    shown = autoinfer("show E-1 --log")
    assert (shown.code, shown.out, shown.err) == (0, "quick: time launch pair 1\n[red] stays\n", "")


def test_every_attempt_is_printed(autoinfer: Autoinfer, database: Database) -> None:
    job, _ = begin(database, autoinfer.data_dir, "first\n")
    with database.write() as session:
        queue.give_up(session, job, "killed")
    begin(database, autoinfer.data_dir, "second\n")
    assert autoinfer("show E-1 --log").out == "== attempt 1 ==\nfirst\n== attempt 2 ==\nsecond\n"
    told = autoinfer("show E-1 --log --json").json()
    assert told == {
        "id": "E-0001",
        "ended": False,
        "attempts": [{"attempt": 1, "text": "first\n"}, {"attempt": 2, "text": "second\n"}],
    }


def test_following_prints_what_comes_and_ends_with_the_experiment(
    autoinfer: Autoinfer, database: Database
) -> None:
    job, log = begin(database, autoinfer.data_dir, "first\n")
    with autoinfer.start("show E-1 --log --follow", AUTOINFER_LOG_POLL_S="0.01") as following:
        assert following.stdout is not None
        assert following.stdout.readline() == "first\n"
        with log.open("a") as more:
            more.write("second\n")
        assert following.stdout.readline() == "second\n"
        finish(database, job, JobState.DONE)
        assert following.stdout.read() == ""
        assert following.wait(PATIENCE_S) == 0


def test_one_that_waits_for_a_worker_says_so(autoinfer: Autoinfer, database: Database) -> None:
    shown = autoinfer("show E-1 --log")
    assert shown.code == 0
    assert "E-0001 has written nothing yet" in shown.out
    assert "--follow" in shown.out


def test_a_log_that_was_deleted_or_is_elsewhere_is_told_in_a_sentence(
    autoinfer: Autoinfer, database: Database
) -> None:
    job, log = begin(database, autoinfer.data_dir, "first\n", "other-desk/cpu")
    shutil.rmtree(log.parent)
    finish(database, job, JobState.DONE)
    elsewhere = autoinfer("show E-1 --log")
    assert (elsewhere.code, elsewhere.out) == (1, "")
    assert "E-0001 ran on other-desk, and its log is there." in elsewhere.err
    enqueue_job(database, 1, a_test_job)
    with database.write() as session:
        again = queue.claim(session, "worker", HERE, ("cpu",), 60)
        assert again is not None
        queue.finish(session, again, JobState.FAILED)
    for line in ("show E-2 --log", "show E-2 --log --json", "show E-2 --log --follow"):
        deleted = autoinfer(line)
        assert (deleted.code, deleted.out) == (1, "")
        assert "The log of E-0002 was deleted" in deleted.err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("show C-1 --log", "--log belongs to an experiment"),
        ("show E-1 --follow", "--follow goes on with a log"),
        ("show E-1 --log --samples", "A log is shown without --samples"),
        ("show E-1 --log --follow --json", "A log is followed as text"),
    ],
)
def test_options_that_don_t_go_together_are_refused(
    autoinfer: Autoinfer, database: Database, line: str, said: str
) -> None:
    refused = autoinfer(line)
    assert (refused.code, refused.out) == (2, "")
    assert said in refused.err
