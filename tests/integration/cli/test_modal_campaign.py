"""`autoinfer run --target modal:L4`: a whole campaign by the command, whose jobs are calls to a fake Modal.

What talks to the fake is Modal's own library, in the command and in the worker beside it; the containers are
real processes with the simulated engine, started by Modal's own runtime. The GPU is made up; nothing claims
to be one outside of this test.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from sqlalchemy import select

from db.models import Experiment, Hypothesis, Job, RemoteRun
from db.models.device import DeviceMean
from db.session import Database, open_database
from db.states import HypothesisState, JobState, RemoteRunState
from experiments.executors.modal import deployment
from tests.integration.cli.command import ROOT, Autoinfer
from tests.integration.worker.processes import events_of
from tests.simulated.campaign import ENTRY_POINTS, SMALL_SPACE, simulated_spec
from tests.simulated.modal import app as simulated
from tests.simulated.modal.server import FakeModal
from tests.waiting import wait_for

# In the suite calls run jobs in executors/modal, and a whole campaign runs in test_rented_campaign.py.
pytestmark = [pytest.mark.timeout(600), pytest.mark.bench_only]

TARGET = "modal:L4"
SECRET = "as-planted-secret"


class OnModal:
    """A data folder, a campaign's file, the fake of Modal with the app deployed, and the command with an
    account."""

    def __init__(self, folder: Path, fake: FakeModal) -> None:
        self.folder, self.data, self.fake = folder, folder / "data", fake
        self.file = folder / "campaign.yaml"
        made = simulated_spec(folder, SMALL_SPACE).model_copy(update={"model": "reference"})
        self.file.write_text(made.model_dump_json(exclude_none=True))  # which is YAML too
        info = folder / "site" / "simulated-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: simulated\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(ENTRY_POINTS)
        self.environment = {
            "PYTHONPATH": os.pathsep.join((str(folder / "site"), str(ROOT))),
            "MODAL_SERVER_URL": fake.loopback.url,
            "MODAL_TOKEN_ID": "ak-test",
            "MODAL_TOKEN_SECRET": SECRET,
            "MODAL_CONFIG_PATH": str(folder / "none.toml"),
        }
        self.autoinfer = Autoinfer(self.data, limit_s=200)

    @property
    def line(self) -> str:
        return f"run {self.file} --target {TARGET} --budget-usd 100 --json"

    def __call__(self, line: str):
        return self.autoinfer(line, **self.environment)

    def has_a_run(self) -> bool:
        """Whether a call has a container and no answer yet."""
        return any(each.pid is not None and each.result is None for each in list(self.fake.calls.values()))

    def living(self) -> int:
        return sum(self.fake.living(each) for each in self.fake.calls)

    def database(self) -> Database:
        return open_database(f"sqlite:///{self.data / 'autoinfer.db'}")


@pytest.fixture(scope="module")
def on_modal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnModal]:
    import modal

    folder = tmp_path_factory.mktemp("modal-campaign")
    fake = FakeModal(folder)
    made = OnModal(folder, fake)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in made.environment.items():
            if name.startswith("MODAL_"):
                patch.setenv(name, value)
        deployment.deploy(app=deployment.make_app(function=simulated.job, image=modal.Image.debian_slim()))
        modal.Client.from_env().close()
    yield made
    fake.close()


@pytest.fixture(scope="module")
def outcome(on_modal: OnModal):
    """What the whole campaign says at its end; all of it was killed while its first test ran."""
    first = on_modal.autoinfer.start(on_modal.line, **on_modal.environment)
    try:
        wait_for(lambda: len(on_modal.fake.calls) > 1 and on_modal.has_a_run(), 120)
    finally:
        for process in [psutil.Process(first.pid), *psutil.Process(first.pid).children()]:
            process.kill()  # the command, its worker and the pages beside it
        first.communicate()
    ended = on_modal(on_modal.line)
    assert ended.code == 0, ended.err
    return json.loads(ended.out.splitlines()[-1])


def test_a_whole_campaign_runs_on_modal_and_is_paid_once(on_modal: OnModal, outcome) -> None:
    database = on_modal.database()
    with database.read() as session:
        states = set(session.scalars(select(Hypothesis.state)))
        assert set(session.scalars(select(Experiment.target))) == {"cuda:NVIDIA L4:24 GB:modal"}
        assert set(session.scalars(select(Job.state))) == {JobState.DONE}
        runs = list(session.scalars(select(RemoteRun)))
        assert set(session.execute(select(DeviceMean.host, DeviceMean.model)).all()) == {
            (TARGET, "NVIDIA L4")
        }
    assert len(events_of(database, "job.taken_over")) == 1
    database.close()
    assert {HypothesisState.SUPPORTED, HypothesisState.REFUTED} <= states
    assert outcome["best"]["configuration"]["simulated.tpot_ms"] == 7.0
    assert {run.state for run in runs} == {RemoteRunState.ENDED}
    assert len(on_modal.fake.calls) == len(runs) == len({run.job_id for run in runs}), "a call a job"
    assert on_modal.living() == 0
    actual = sum(run.actual_microusd or 0 for run in runs) / 1e6
    assert 0 < actual < 100
    assert outcome["spent"]["usd"] == pytest.approx(actual, abs=1e-4)


def test_what_it_left_on_the_disk_and_in_the_database_holds_no_secret(on_modal: OnModal, outcome) -> None:
    found = [
        path for path in on_modal.data.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()
    ]
    assert found == []
    [jobs] = {len(list((on_modal.data / "jobs").glob("*/log.txt")))}
    assert jobs == len(on_modal.fake.calls), "there was something to look through"
