"""A whole campaign by the commands of docs/runpod.md as they stand there, whose jobs are pods of the fake.

The pods are real processes with the simulated engine, the board is a real PostgreSQL, the bucket a server of
S3's protocol, and the command, the worker beside it, the queue and the money are the real ones. The GPU is
made up; nothing claims to be one outside of this test. Left out of the page is what builds the image.
"""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import func, make_url, select

from db.models import Experiment, Hypothesis, Job, NoiseLaunch, RemoteRun
from db.models.device import DeviceMean
from db.session import Database, open_database
from db.states import HypothesisState, JobState, RemoteRunState
from tests import postgresql, s3
from tests.integration.cli.command import ROOT, Autoinfer, Ended
from tests.new_database import new_database
from tests.simulated.campaign import ENTRY_POINTS, SMALL_SPACE, simulated_spec
from tests.simulated.runpod.server import ACCOUNT_KEY, SECRET, FakeRunPod

pytestmark = pytest.mark.timeout(600)

TARGET = "runpod:L4"


def commands_of(heading: str) -> list[str]:
    """The commands below a heading of the page, line by line."""
    page = (ROOT / "docs" / "runpod.md").read_text(encoding="utf-8")
    found = re.search(rf"^## {re.escape(heading)}$.*?^```\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert found is not None, heading
    return found[1].splitlines()


class OnRunPod:
    """A data folder, a campaign's file, the fake of RunPod, a board, a bucket, and the page's commands with
    the names of this place put in."""

    def __init__(
        self, folder: Path, fake: FakeRunPod, server: postgresql.Server, bucket: dict[str, str]
    ) -> None:
        self.data, self.fake, self.folder = folder / "data", fake, folder
        self.data.mkdir()
        new_database(self.data).close()
        self.file = folder / "campaign.yaml"
        made = simulated_spec(folder, SMALL_SPACE)
        self.checkpoint = Path(made.model)
        self.file.write_text(made.model_dump_json(exclude_none=True))  # which is YAML too
        info = folder / "site" / "simulated-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: simulated\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(ENTRY_POINTS)
        server.execute("CREATE DATABASE board")
        desk = make_url(server.url("board"))
        here = f"{desk.host}:{desk.port}"
        self._names = {
            "RUNPOD_API_KEY=…": f"RUNPOD_API_KEY={ACCOUNT_KEY}",
            "'…'": f"'{SECRET}'",
            "desk@db.example": f"{desk.username}:{desk.password}@{here}",
            "autoinfer_pod@db.example": f"autoinfer_pod@{here}",
            "?sslmode=verify-full&sslrootcert=system": "",  # it serves without TLS
            "?sslmode=verify-full": "",
            "s3://bucket/prefix": f"s3://{s3.BUCKET}/campaign",
            "/models/mine": str(self.checkpoint),
        }
        self.environment = {
            "PYTHONPATH": os.pathsep.join((str(folder / "site"), str(ROOT))),
            "AUTOINFER_RUNPOD_URL": fake.url,
            **bucket,
        }
        self.autoinfer = Autoinfer(self.data, limit_s=200)
        psql = {
            "PGHOST": desk.host,
            "PGPORT": desk.port,
            "PGUSER": desk.username,
            "PGPASSWORD": desk.password,
        }
        told = {name: str(value) for name, value in psql.items()}
        first, *lines, self.run_line = commands_of("From account to first remote experiment")
        assert first.startswith("docker build")
        self._in_bash(lines, told)
        install, *lines, self.put_line, self.run_mine_line = commands_of("Checkpoints and artifacts")
        assert install == "pip install 'autoinfer[s3]'"
        self._in_bash(lines, told)

    def _in_bash(self, lines: list[str], more: dict[str, str]) -> None:
        """Run lines of the page, and keep what they export for the commands."""
        script = "\n".join(["set -eu", *map(self.here, lines), "env -0"])
        done = subprocess.run(
            ["bash", "-c", script],
            env={"PATH": os.environ["PATH"], **self.environment, **more},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        exported = dict(each.split("=", 1) for each in done.stdout.split("\n")[-1].split("\0") if "=" in each)
        self.environment |= {
            name: value for name, value in exported.items() if name.startswith(("AUTOINFER_", "RUNPOD_"))
        }

    def here(self, line: str) -> str:
        """A line of the page with the names of this place."""
        for name, value in self._names.items():
            line = line.replace(name, value)
        return line

    def __call__(self, line: str):
        return self.autoinfer.fresh(self.here(line).removeprefix("autoinfer "), **self.environment)

    def database(self) -> Database:
        return open_database(f"sqlite:///{self.data / 'autoinfer.db'}")


@pytest.fixture(scope="module")
def on_runpod(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnRunPod]:
    if postgresql.programs() is None:
        pytest.skip(postgresql.MISSING)
    folder = tmp_path_factory.mktemp("runpod-campaign")
    fake = FakeRunPod(folder)
    fake.environment = {"FAKE_GPU": "NVIDIA L4", "FAKE_GPU_GB": "24"}
    with postgresql.serving() as server, s3.serving() as bucket:
        made = OnRunPod(folder, fake, server, bucket)
        yield made
        fake.close()


@pytest.fixture(scope="module")
def put(on_runpod: OnRunPod) -> Ended:
    """What the page's command says that puts a checkpoint into the bucket."""
    return on_runpod(on_runpod.put_line)


@pytest.fixture(scope="module")
def outcome(on_runpod: OnRunPod, put: Ended):
    """What the whole campaign says at its end: the page's second run, of a checkpoint in a folder, with the
    file of the simulated engine."""
    assert put.code == 0, put.err
    line = on_runpod.run_mine_line.replace("run ", f"run {on_runpod.file} ", 1)
    ended = on_runpod(f"{line} --json")
    assert ended.code == 0, ended.err
    return json.loads(ended.out.splitlines()[-1])


def test_the_page_puts_a_checkpoint_into_the_bucket_and_runs_with_it_as_without(
    on_runpod: OnRunPod, put: Ended
) -> None:
    assert put.code == 0, put.err
    assert on_runpod.run_line == on_runpod.run_mine_line.replace("--model /models/mine ", "")


@pytest.mark.bench_only  # in the suite pods run jobs in executors/runpod, and campaigns elsewhere
def test_a_whole_campaign_runs_in_pods_that_are_all_given_back(on_runpod: OnRunPod, outcome) -> None:
    database = on_runpod.database()
    with database.read() as session:
        states = set(session.scalars(select(Hypothesis.state)))
        assert set(session.scalars(select(Experiment.target))) == {"cuda:NVIDIA L4:24 GB:runpod"}
        assert set(session.scalars(select(Job.state))) == {JobState.DONE}
        runs = list(session.scalars(select(RemoteRun)))
        assert session.scalar(select(func.count()).select_from(NoiseLaunch))
        assert set(session.execute(select(DeviceMean.host, DeviceMean.model)).all()) == {
            (TARGET, "NVIDIA L4")
        }
    database.close()
    assert {HypothesisState.SUPPORTED, HypothesisState.REFUTED} <= states
    assert outcome["best"]["configuration"]["simulated.tpot_ms"] == 7.0
    assert {run.state for run in runs} == {RemoteRunState.ENDED}
    assert on_runpod.fake.pods == {}
    assert len(on_runpod.fake.ever) == len(runs), "a pod a run, and no other"
    actual = sum(run.actual_microusd or 0 for run in runs) / 1e6
    assert 0 < actual < 20
    assert outcome["spent"]["usd"] == pytest.approx(actual, abs=1e-4)


@pytest.mark.bench_only
def test_what_it_supported_is_confirmed_on_another_gpu_there(on_runpod: OnRunPod, outcome) -> None:
    """`promote` brings its own worker, and waits for the verdict."""
    database = on_runpod.database()
    with database.read() as session:
        best = session.scalars(
            select(Hypothesis.id).where(Hypothesis.state == HypothesisState.SUPPORTED).order_by(Hypothesis.id)
        ).first()
    on_runpod.fake.prices["NVIDIA A40"] = 0.4
    on_runpod.fake.environment = {"FAKE_GPU": "NVIDIA A40", "FAKE_GPU_GB": "48"}
    assert on_runpod("budget set --target runpod:A40 50").code == 0
    said = on_runpod(f"promote H-{best} --target runpod:A40 --yes --json")
    assert said.code == 0, said.err
    with database.read() as session:
        [run] = session.scalars(select(RemoteRun).where(RemoteRun.target == "runpod:A40"))
        assert (run.state, run.outcome) == (RemoteRunState.ENDED, "done")
        assert session.get_one(Experiment, run.experiment_id).failure is None
    database.close()
    assert said.json()["confirmation"] is not None
    assert on_runpod.fake.pods == {}


def test_a_variable_that_is_not_given_is_told_in_a_sentence(on_runpod: OnRunPod) -> None:
    named = on_runpod.environment | {"RUNPOD_API_KEY": ""}
    refused = on_runpod.autoinfer(f"worker --target {TARGET} --once", **named)
    assert refused.code == 2
    assert "For RunPod the environment lacks RUNPOD_API_KEY." in refused.err
    misspelt = on_runpod.autoinfer("budget list", AUTOINFER_RUNPOD_BORD="postgresql://x")
    assert misspelt.code == 2
    assert "Did you mean AUTOINFER_RUNPOD_BOARD" in misspelt.err
