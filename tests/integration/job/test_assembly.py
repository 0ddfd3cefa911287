"""The job's own process, `python -m experiments.job`, finds engine and judge by their entry points."""

import time
from pathlib import Path

import pytest

from configs.errors import UsageError
from experiments.executors.local import LocalExecutor
from experiments.executors.port import RunState, Status
from experiments.job.named import load_engine, load_judge
from experiments.job.place import Place
from experiments.reference_model.load import checkpoint_fingerprint
from experiments.reference_model.random_weights import write_random_checkpoint
from tests.simulated.specs import a_test_job

REPOSITORY = Path(__file__).parents[3]
PATIENCE_S = 120.0

ENTRY_POINTS = """\
[autoinfer.engines]
simulated = tests.simulated.engine:SimulatedEngine
torn = tests.simulated.engine:NoSuchName
[autoinfer.judges]
one-pair = tests.simulated.judges:OnePairJudge
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another distribution that brings an engine and a judge, as a user's package would."""
    site = tmp_path / "site"
    info = site / "someones_engine-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: someones-engine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(site)
    return site


def run(tmp_path: Path, site: Path, **fields: object) -> Status:
    place = Place(artifacts_dir=tmp_path / "artifacts", cache_dir=tmp_path / "cache")
    environment = {"PYTHONPATH": f"{REPOSITORY}:{site}"}
    executor = LocalExecutor(tmp_path / "jobs", place, environment=environment)
    ref = executor.submit("job", a_test_job(**fields))
    deadline = time.monotonic() + PATIENCE_S
    while (status := executor.poll(ref)).state in (RunState.PENDING, RunState.RUNNING):
        assert time.monotonic() < deadline, executor.logs(ref)
        executor.wait(ref, 1.0)
    executor.close()
    return status


def test_an_installed_engine_and_judge_are_found(installed: Path):
    assert load_engine("simulated").name == "simulated"
    assert load_judge("one-pair").name == "one-pair"


def test_a_name_that_nobody_registered_is_told_with_those_that_are(installed: Path):
    with pytest.raises(UsageError, match=r"no engine 'vllm-next'. Registered are: .*simulated"):
        load_engine("vllm-next")


def test_an_engine_that_can_t_be_loaded_is_told_in_a_sentence(installed: Path):
    with pytest.raises(UsageError, match="The engine 'torn' can't be loaded"):
        load_engine("torn")


def test_a_job_runs_with_what_its_spec_names(installed: Path, tmp_path: Path):
    write_random_checkpoint(tmp_path / "checkpoint", seed=0)
    fingerprint = checkpoint_fingerprint(tmp_path / "checkpoint")
    status = run(tmp_path, installed, model=str(tmp_path / "checkpoint"), model_fingerprint=fingerprint)
    assert status.state is RunState.DONE, status.failure
    assert status.result is not None
    quick = status.result.launches[0]
    assert {"cpu", "packages", "git_revision"} <= set(quick.environment["machine"])
    assert len({sample.item for sample in quick.samples}) == 4, "2 blocks of 2 prompts of held-out text"


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"engine": "vllm-next"}, "There is no engine 'vllm-next'"),
        ({"judge": "oracle"}, "There is no judge 'oracle'"),
        ({"model": "/nowhere"}, "/nowhere"),
        ({"model_fingerprint": "f" * 64}, "is not the one that the campaign began with"),
    ],
)
def test_what_is_missing_fails_the_job_with_a_sentence(
    installed: Path, tmp_path: Path, fields: dict, told: str
):
    write_random_checkpoint(tmp_path / "checkpoint", seed=0)
    status = run(tmp_path, installed, **({"model": str(tmp_path / "checkpoint")} | fields))
    assert status.state is RunState.FAILED
    assert status.failure is not None
    assert told in status.failure
