"""`autoinfer promote` as a process: the quote before everything, approval, and what nobody agreed to.

The rented target is the tests' provider in files; the campaign and its verdict are the simulated engine's.
"""

import os
import shutil
from pathlib import Path

import pytest
from sqlalchemy import select

from db.labels import Noun, format_label
from db.models import Job, JobQuote
from db.session import open_database
from tests.integration.campaign.test_promoting import measured
from tests.integration.cli.command import ROOT, Autoinfer
from tests.integration.worker.processes import events_of
from tests.new_database import database_url
from tests.simulated.campaign import ENTRY_POINTS
from tests.simulated.remote_executor import FileProvider
from tests.waiting import wait_for

TARGET = "files:T"
PROVIDER = "[autoinfer.executors]\nfiles = tests.simulated.remote_executor:FileProvider\n"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where Python finds the engine and the provider, as if a package had brought them."""
    info = tmp_path_factory.mktemp("site") / "tests_own-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tests-own\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS + PROVIDER)
    return os.pathsep.join((str(info.parent), str(ROOT)))


@pytest.fixture
def judged(autoinfer: Autoinfer) -> Autoinfer:
    """A campaign with one supported test, E-0002 of H-001, on the processor."""
    autoinfer.data_dir.mkdir(parents=True, exist_ok=True)
    measured(autoinfer.data_dir).database.close()
    return autoinfer


def jobs(data_dir: Path) -> list[tuple[str, str, int | None]]:
    """Jobs of the rented target: label, state, what is approved."""
    database = open_database(database_url(data_dir))
    with database.read() as session:
        found = [
            (format_label(Noun.JOB, job.id), job.state.value, quote.approved_microusd)
            for job, quote in session.execute(select(Job, JobQuote).join(JobQuote, JobQuote.job_id == Job.id))
        ]
    database.close()
    return found


def test_from_a_quote_that_nobody_agreed_to_over_an_approval_to_a_submit(
    judged: Autoinfer, path: str
) -> None:
    provider = FileProvider(judged.data_dir / "jobs", target=TARGET)
    refused = judged(f"promote H-1 --target {TARGET}", PYTHONPATH=path)
    assert refused.code == 2
    assert "No budget in dollars covers files:T" in refused.err
    assert jobs(judged.data_dir) == []

    assert judged("budget set --target files:T 0.50").code == 0
    refused = judged(f"promote H-1 --target {TARGET}", PYTHONPATH=path)
    assert "It costs $1.00 at most, and the budget of files:T has $0.500 left" in refused.err
    assert jobs(judged.data_dir) == []

    assert judged("budget set --target files:T 5").code == 0
    said = judged(f"promote H-1 --target {TARGET}", PYTHONPATH=path)
    assert said.code == 0, said.err
    assert said.out.startswith("E-0002 on files:T: $1.00 at most, expected $0.100")
    ((job, state, approved),) = jobs(judged.data_dir)
    assert (state, approved) == ("queued", 0)
    assert f"E-0003 waits for your approval: autoinfer approve {job}" in said.out

    assert judged(f"worker --target {TARGET} --once", PYTHONPATH=path).code == 0
    assert provider.submits() == [], "nothing is paid for that nobody agreed to"
    again = judged(f"promote E-2 --target {TARGET} --json", PYTHONPATH=path).json()
    assert (again["experiment"], again["job"], again["waits_for_approval"]) == ("E-0003", job, True)

    assert judged(f"approve {job}").code == 0
    assert judged(f"approve {job} --clear", PYTHONPATH=path).code == 0
    assert judged(f"worker --target {TARGET} --once", PYTHONPATH=path).code == 0
    assert provider.submits() == [], "nor what was agreed to and taken back"


def test_what_is_agreed_to_beforehand_is_submitted_without_another_question(
    judged: Autoinfer, path: str
) -> None:
    assert judged("budget set --target files:T 5 --approve-above 0.01").code == 0
    said = judged.fresh(f"promote E-2 --target {TARGET} --yes --no-wait --json", PYTHONPATH=path).json()
    assert (said["quote"]["bound_usd"], said["waits_for_approval"]) == (1.0, False)
    assert said["confirmation"] is None
    provider = FileProvider(judged.data_dir / "jobs", target=TARGET)
    (told,) = (judged.data_dir / "jobs").glob("*/records.jsonl")
    shutil.copy(told, provider.cloud / "records.jsonl")  # what the same arms gave on the processor
    database = open_database(database_url(judged.data_dir))
    worker = judged.start(f"worker --target {TARGET}", PYTHONPATH=path)
    try:
        wait_for(lambda: len(provider.reconcile()) == 1)
        provider.end(provider.reconcile()[0])
        wait_for(lambda: events_of(database, "experiment.compared") != [])
    finally:
        worker.terminate()
        worker.communicate()
    (asked,) = events_of(database, "experiment.promoted")
    assert "E-0003 is to confirm E-0002 on files:T: $1.00 at most" in asked
    (compared,) = events_of(database, "experiment.compared")
    assert compared.startswith("E-0003 on files:T replicates E-0002 on ")
    assert "on cpu:" not in compared
    database.close()
    assert "F-002" in judged("show F-1").out
    assert "E-0003" in judged("show E-2").out


def test_time_that_nobody_agreed_to_is_not_queued(judged: Autoinfer, path: str) -> None:
    refused = judged("promote E-2 --target cuda:0", PYTHONPATH=path)
    assert refused.code == 1
    assert "There is no cuda:0 to measure on" in refused.err
    refused = judged("promote E-2 --target cpu", PYTHONPATH=path)
    assert refused.code == 2
    assert "autoinfer reproduce E-0002" in refused.err
    assert "C-1 is neither an experiment nor a hypothesis" in judged("promote C-1 --target cpu").err
