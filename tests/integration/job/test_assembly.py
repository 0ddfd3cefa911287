"""The job's own process, `python -m experiments.job`, finds engine and judge by their entry points."""

import time
from collections import Counter
from pathlib import Path

import pytest

from configs.errors import EXIT_FAILURE, UsageError
from experiments.executors.local import LocalExecutor
from experiments.executors.port import RunState, Status
from experiments.job.assembly import assemble
from experiments.job.journal import Journal
from experiments.job.named import load_engine, load_judge
from experiments.job.place import PLACE_NAME, RECORDS_NAME, SPEC_NAME, Place
from experiments.job.process import run_in_folder
from experiments.measurement.evidence import ALL_REQUESTS, Metric
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


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    write_random_checkpoint(folder, seed=0)
    return folder


def place_in(tmp_path: Path) -> Place:
    return Place(artifacts_dir=tmp_path / "artifacts", cache_dir=tmp_path / "cache")


def run(tmp_path: Path, site: Path, **fields: object) -> Status:
    environment = {"PYTHONPATH": f"{REPOSITORY}:{site}"}
    executor = LocalExecutor(tmp_path / "jobs", place_in(tmp_path), environment=environment)
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


def test_a_job_runs_with_what_its_spec_names(installed: Path, checkpoint: Path, tmp_path: Path):
    fingerprint = checkpoint_fingerprint(checkpoint)
    status = run(tmp_path, installed, model=str(checkpoint), model_fingerprint=fingerprint)
    assert status.state is RunState.DONE, status.failure
    assert status.result is not None
    quick = status.result.launches[0]
    assert {"cpu", "packages", "git_revision"} <= set(quick.environment["machine"])
    items = {sample.item for sample in quick.samples} - {ALL_REQUESTS}
    assert len(items) == 4, "2 blocks of 2 prompts of held-out text"


def test_a_job_whose_engine_is_missing_fails_with_a_sentence(
    installed: Path, checkpoint: Path, tmp_path: Path
):
    status = run(tmp_path, installed, model=str(checkpoint), engine="vllm-next")
    assert status.state is RunState.FAILED
    assert status.failure is not None
    assert "There is no engine 'vllm-next'" in status.failure


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"judge": "oracle"}, "There is no judge 'oracle'"),
        ({"model": "/nowhere"}, "/nowhere"),
        ({"model_fingerprint": "f" * 64}, "is not the one that the campaign began with"),
    ],
)
def test_what_else_is_missing_is_told_in_a_sentence_too(
    installed: Path, checkpoint: Path, tmp_path: Path, fields: dict, told: str
):
    """In this process, as the job's does it."""
    spec = a_test_job(**({"model": str(checkpoint)} | fields))
    (tmp_path / SPEC_NAME).write_text(spec.model_dump_json())
    (tmp_path / PLACE_NAME).write_text(place_in(tmp_path).model_dump_json())
    assert run_in_folder(tmp_path, assemble) == EXIT_FAILURE
    journal = Journal(tmp_path / RECORDS_NAME)
    journal.update()
    assert journal.fold.error is not None
    assert told in journal.fold.error


# In the suite the simulated engine measures them (test_further_workloads.py), and the reference engine
# decodes requests of other lengths (engines/test_reference_decode.py).
@pytest.mark.bench_only
def test_the_reference_engine_measures_further_workloads_of_other_lengths(
    installed: Path, checkpoint: Path, tmp_path: Path
):
    lengths = [{"prompt_tokens": 24, "new_tokens": 6}, {"prompt_tokens": 4, "new_tokens": 12}]
    common = {"concurrency": 1, "prompts_per_block": 2, "warmup_requests": 1}
    status = run(
        tmp_path,
        installed,
        candidate={"serving.dtype": "bfloat16", "serving.threads": 1},
        control={"serving.dtype": "float32", "serving.threads": 1},
        engine="reference",
        model=str(checkpoint),
        model_fingerprint=checkpoint_fingerprint(checkpoint),
        further=[{**common, **each} for each in lengths],
    )
    assert status.state is RunState.DONE, status.failure
    assert status.result is not None
    assert status.result.failure is None
    assert [each.arm for each in status.result.further] == [each.arm for each in status.result.launches[:2]]
    for launch in status.result.further:
        gaps = Counter(sample.item.partition(": ")[0] for sample in launch.of(Metric.ITL_MS))
        assert gaps == {"1x24+6": 2 * 5, "1x4+12": 2 * 11}
