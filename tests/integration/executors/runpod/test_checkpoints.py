"""How a pod comes by a checkpoint, and shares what it builds: by HTTP to the fake of RunPod, with real pods'
processes, a real board, and a bucket behind a real S3 protocol."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from configs.errors import AutoinferError
from configs.models import load_model_profile
from experiments.artifacts.originals import put_original
from experiments.artifacts.shared import SharedArtifacts
from experiments.executors.port import RunState, Status
from experiments.executors.runpod.board import Asked
from experiments.executors.runpod.executor import RunPodExecutor
from experiments.job.spec import TestJob
from experiments.reference_model.load import checkpoint_fingerprint
from experiments.shapes.folder import write_shape
from experiments.shapes.marker import DRAFTER_FOLDER
from experiments.space.configuration import Configuration
from tests import s3
from tests.simulated.runpod.places import RunPodPlace
from tests.simulated.runpod.server import SECRETS
from tests.simulated.specs import FASTER, PLAN, a_test_job

COMMIT = "0123456789abcdef0123456789abcdef01234567"
URL = f"s3://{s3.BUCKET}/runpod"
PRUNED = FASTER | {"simulated.layers": 3}


@pytest.fixture(scope="module")
def server() -> Iterator[dict[str, str]]:
    with s3.serving() as variables:
        yield variables


@pytest.fixture
def bucket(server: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> SharedArtifacts:
    """The bucket, whose credentials here are not those of pods."""
    for name, value in server.items():
        monkeypatch.setenv(name, value)
    return SharedArtifacts(URL)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "qwen"
    folder.mkdir()
    for name in ("config.json", "tokenizer.json", "model.safetensors", "README.md"):
        (folder / name).write_text(f"the {name} of a checkpoint")
    return folder


def job_of(folder: Path, **more: object) -> TestJob:
    return a_test_job(model=str(folder), model_fingerprint=checkpoint_fingerprint(folder), **more)  # type: ignore[arg-type]


def ended(place: RunPodPlace, executor: RunPodExecutor, ref: str) -> Status:
    place.wait_for(lambda: executor.poll(ref).state not in (RunState.PENDING, RunState.RUNNING))
    return executor.poll(ref)


def models_of(place: RunPodPlace, number: int = 0) -> dict[str, bytes]:
    """The files of the checkpoint on the disk of a pod."""
    disk = place.fake.ever[number].log.parent
    return {path.name: path.read_bytes() for path in disk.glob("pod-*/models/**/*") if path.is_file()}


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_checkpoint_in_a_folder_is_refused_before_any_pod_where_no_bucket_is_named(
    place: RunPodPlace, checkpoint: Path, tmp_path: Path
):
    for shared in (None, str(tmp_path / "shared")):
        executor = place.executor(shared_artifacts=shared)
        with pytest.raises(AutoinferError, match="which a pod does not see") as refused:
            executor.submit("nowhere", job_of(checkpoint))
        assert refused.value.hint.endswith(f"autoinfer artifacts put {checkpoint}")
    assert place.fake.ever == []


def test_a_checkpoint_that_was_put_into_the_bucket_is_fetched_by_the_pod(
    place: RunPodPlace, checkpoint: Path, bucket: SharedArtifacts
):
    executor = place.executor(shared_artifacts=URL)
    job = job_of(checkpoint)
    with pytest.raises(AutoinferError, match=f"is not in {URL}"):
        executor.submit("early", job)
    assert place.fake.ever == []
    assert put_original(bucket, checkpoint) == job.model_fingerprint
    assert put_original(bucket, checkpoint) is None, "it is there"
    status = ended(place, executor, executor.submit("fetched", job))
    assert status.state is RunState.DONE, status.failure
    fetched = models_of(place)
    fetched.pop("manifest.json")
    travels = ("config.json", "tokenizer.json", "model.safetensors")
    assert fetched == {name: (checkpoint / name).read_bytes() for name in travels}
    told = str(place.fake.ever[0].env)
    assert "{{ RUNPOD_SECRET_autoinfer_s3_secret }}" in told
    assert not [secret for secret in (*SECRETS.values(), "secret-of-tests") if secret in told]


def test_what_one_pod_built_the_next_one_fetches(place: RunPodPlace, bucket: SharedArtifacts):
    executor = place.executor(shared_artifacts=URL)
    built = []
    for key in ("first", "second"):
        status = ended(place, executor, executor.submit(key, a_test_job(PRUNED)))
        assert status.result is not None, status.failure
        [artifact] = [each for each in status.result.artifacts if each.kind == "checkpoint"]
        assert bucket.manifest(artifact.digest) is not None
        built.append(artifact.build_s > 0)
    assert built == [True, False]


def test_a_pod_that_can_not_fetch_its_checkpoint_says_why_and_is_no_loss(
    place: RunPodPlace, checkpoint: Path, bucket: SharedArtifacts, monkeypatch: pytest.MonkeyPatch
):
    put_original(bucket, checkpoint)
    place.fake.environment = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}
    executor = place.executor(shared_artifacts=URL)
    status = ended(place, executor, executor.submit("cut-off", job_of(checkpoint)))
    assert status.state is RunState.FAILED
    assert f"The shared store of artifacts {URL} can't be used" in str(status.failure)


def test_a_shape_goes_with_its_job(place: RunPodPlace, tmp_path: Path):
    shape = write_shape(load_model_profile("qwen3.5-9b"), Configuration.of({}), tmp_path / "shape")
    made_up = PLAN.model_copy(update={"latency_only": True})
    executor = place.executor()
    status = ended(place, executor, executor.submit("shape", job_of(shape, plan=made_up)))
    assert status.state is RunState.DONE, status.failure
    [drafter] = place.fake.ever[0].log.parent.glob(f"pod-*/models/**/{DRAFTER_FOLDER}")
    assert files_below(drafter.parent) == files_below(shape)
    assert {"config.json", f"{DRAFTER_FOLDER}/config.json"} < files_below(shape).keys()


def test_a_model_of_the_hub_is_left_to_the_pod_to_fetch(place: RunPodPlace):
    """Its spec names a folder too: that of the hub's cache where the campaign was begun."""
    place.fake.hold = True
    snapshot = f"/home/me/.cache/huggingface/hub/models--Qwen--Qwen3.5-4B/snapshots/{COMMIT}"
    executor = place.executor()
    ref = executor.submit("hub", a_test_job(model=snapshot))
    asked = executor._board.asked("hub")
    assert (asked.shape, asked.spec["model"]) == ({}, snapshot)
    place.fake.start(place.fake.ever[0])
    assert ended(place, executor, ref).state is RunState.DONE
    assert models_of(place) == {}


def test_what_was_asked_by_an_older_version_is_understood():
    old = {"version": 1, "gpu": None, "spec": {}, "limits_s": {}, "load_limit_s": 1.0, "usd_per_hr": 0.1}
    asked = Asked.model_validate(old)
    assert (asked.image, asked.shape, asked.shared_artifacts) == ("", {}, None)
