"""Rented machines from the command line: budgets, a worker, approval, an end to all that is paid for."""

import json
import os
import signal
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import update

from db.clock import now
from db.models import Job
from db.session import Database
from tests.integration.cli.command import ROOT, Autoinfer
from tests.integration.worker.processes import events_of
from tests.new_database import new_database
from tests.simulated.queueing import enqueue_job, start_campaign
from tests.simulated.remote_executor import FileProvider
from tests.simulated.specs import a_test_job
from tests.waiting import wait_for

TARGET = "files:T"
ENTRY_POINTS = "[autoinfer.executors]\nfiles = tests.simulated.remote_executor:FileProvider\n"


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return new_database(tmp_path / "data")


@pytest.fixture
def provider(tmp_path: Path) -> FileProvider:
    return FileProvider(tmp_path / "data" / "jobs", target=TARGET)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Where Python finds the provider, as if a package had brought it."""
    info = tmp_path / "site" / "files_provider-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: files-provider\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    return os.pathsep.join((str(tmp_path / "site"), str(ROOT)))


def enqueue(database: Database) -> str:
    _, job_id = enqueue_job(database, start_campaign(database), partial(a_test_job), device_class=TARGET)
    return f"J-{job_id}"


def test_a_paid_target_without_a_budget_is_refused_in_a_sentence(
    autoinfer: Autoinfer, database: Database, provider: FileProvider, path: str
) -> None:
    refused = autoinfer(f"worker --target {TARGET} --once", PYTHONPATH=path)
    assert refused.code == 2
    assert "No budget in dollars covers files:T" in refused.err
    assert "autoinfer budget set --target files:T USD" in refused.err
    assert provider.submits() == []


def test_from_a_budget_to_a_run_and_its_end(
    autoinfer: Autoinfer, database: Database, provider: FileProvider, path: str
) -> None:
    job = enqueue(database)
    said = autoinfer(f"budget set --target {TARGET} 5 --approve-above 0.50")
    assert said.out == "The budget of files:T is $5.00; above $0.500 a job waits for approval.\n"
    assert autoinfer(f"worker --target {TARGET} --once", PYTHONPATH=path).code == 0
    assert provider.submits() == []
    assert (
        "is quoted $1.00 at most, which is more than $0.990"
        in autoinfer(f"approve {job} --up-to-usd 0.99").err
    )
    approved = autoinfer(f"approve {job}")
    assert approved.out.startswith(f"{job} may be submitted when its turn comes (quoted $1.00 at most")

    worker = autoinfer.start(f"worker --target {TARGET} --leave-running", PYTHONPATH=path)
    wait_for(lambda: len(provider.reconcile()) == 1 and bool(events_of(database, "job.quoted")))
    [budget] = autoinfer("budget list --json").json()["budgets"]
    assert (budget["reserved_usd"], budget["left_usd"]) == (1.0, 4.0)
    worker.send_signal(signal.SIGTERM)
    assert worker.communicate()[0]
    assert worker.returncode == 0
    assert len(provider.reconcile()) == 1, "it was asked to leave it running"

    stopped = autoinfer("stop --remote --json", PYTHONPATH=path)
    assert stopped.code == 0
    assert [run["ended"] for run in stopped.json()["runs"]] == [True]
    assert provider.reconcile() == []
    [budget] = autoinfer("budget list --json").json()["budgets"]
    assert budget["reserved_usd"] == 0


def test_what_can_t_be_ended_is_said_and_stays_reserved(
    autoinfer: Autoinfer, database: Database, provider: FileProvider, path: str
) -> None:
    job = enqueue(database)
    autoinfer(f"budget set --target {TARGET} 5")
    worker = autoinfer.start(f"worker --target {TARGET} --leave-running", PYTHONPATH=path)
    wait_for(lambda: len(provider.reconcile()) == 1)
    worker.terminate()
    worker.communicate()
    [ref] = provider.reconcile()
    (provider.cloud / ref / "refuses-to-end").touch()
    stopped = autoinfer("stop --remote", PYTHONPATH=path)
    assert stopped.code == 1
    assert f"{job} on files:T" in stopped.out
    assert "NOT ended: The provider does not end" in stopped.out
    assert autoinfer("budget list --json").json()["budgets"][0]["reserved_usd"] == 1.0


def test_of_runs_without_an_open_run_here_the_own_are_ended_and_those_of_others_only_if_asked(
    autoinfer: Autoinfer, database: Database, provider: FileProvider, path: str
) -> None:
    """A machine that came late for a run that has ended here, and one of another database."""
    job = enqueue(database)
    autoinfer(f"budget set --target {TARGET} 5")
    worker = autoinfer.start(f"worker --target {TARGET}", PYTHONPATH=path)
    wait_for(lambda: len(provider.reconcile()) == 1)
    worker.terminate()
    worker.communicate()
    [own] = [ended.parent for ended in provider.cloud.glob("*/ended.json")]
    (own / "ended.json").unlink()
    provider.submit("job7-1a2b3c4d-2", a_test_job())
    other = "fc-job7-1a2b3c4d-2"
    found = autoinfer("reconcile --executor files", PYTHONPATH=path)
    assert f"{own.name} at files, made for {job} of this database: alive\n" in found.out
    assert f"{other} at files, another database's, or nobody's: alive\n" in found.out
    assert "autoinfer reconcile --end" in found.out
    assert len(provider.reconcile()) == 2, "they are listed, not ended"
    ended = autoinfer("reconcile --executor files --end --json", PYTHONPATH=path)
    told = {"executor": "files", "fault": None}
    assert json.loads(ended.out)["runs"] == [
        told | {"ref": own.name, "ours": True, "job": job, "ended": True},
        told | {"ref": other, "ours": False, "job": None, "ended": False},
    ]
    assert provider.reconcile() == [other]
    everything = autoinfer("reconcile --executor files --end-others", PYTHONPATH=path)
    assert everything.out.endswith("another database's, or nobody's: ended\n")
    assert provider.reconcile() == []


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("budget set 5", "A budget is one of a campaign, of a day or of a target."),
        ("budget set --day five", "'five' is no amount in US dollars."),
        ("budget set --target cpu 5", "'cpu' is no paid target."),
        ("budget set --campaign C-9 5", "C-9 does not exist"),
        ("budget drop --day", "There is no such budget."),
        ("stop", "Say what is to be stopped."),
        ("worker --target cpu", "There is no target 'cpu'."),
        ("worker --target nobody:H100", "There is no executor 'nobody'."),
        ("worker --target files:T --device cpu", "--device is about this machine"),
        ("worker --at-once 5", "--at-once is about rented machines"),
        ("reconcile --executor local", "The executor local runs jobs on this machine."),
        ("approve J-7", "J-7 does not exist."),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(
    autoinfer: Autoinfer, database: Database, line: str, says: str
) -> None:
    refused = autoinfer(line)
    assert refused.code == 2
    assert says in refused.err


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda each: each.name)
def test_a_worker_that_is_told_to_end_or_whose_terminal_is_closed_leaves_nothing_paid_running(
    autoinfer: Autoinfer, database: Database, provider: FileProvider, path: str, end: signal.Signals
) -> None:
    enqueue(database)
    autoinfer(f"budget set --target {TARGET} 5")
    worker = autoinfer.start(f"worker --target {TARGET}", PYTHONPATH=path)
    wait_for(lambda: len(provider.reconcile()) == 1)
    worker.send_signal(end)
    worker.communicate()
    assert worker.returncode == 0
    assert provider.reconcile() == []
    assert autoinfer("budget list --json").json()["budgets"][0]["reserved_usd"] == 0


def test_what_a_killed_worker_left_is_told_by_the_next_command_and_ended_by_the_one_that_it_names(
    autoinfer: Autoinfer, database: Database, provider: FileProvider, path: str
) -> None:
    enqueue(database)
    autoinfer(f"budget set --target {TARGET} 5")
    worker = autoinfer.start(f"worker --target {TARGET}", PYTHONPATH=path)
    wait_for(lambda: len(provider.reconcile()) == 1)
    worker.kill()
    worker.communicate()
    with database.write() as session:
        session.execute(update(Job).values(lease_expires_at=now()))  # a minute has passed
    assert "may still cost money, $1.00 at most, and no worker" in autoinfer("campaign list").err
    assert autoinfer("stop --remote", PYTHONPATH=path).code == 0
    assert autoinfer("campaign list").err == ""
    assert provider.reconcile() == []
