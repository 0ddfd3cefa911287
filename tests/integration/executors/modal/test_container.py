"""A container on Modal measures what was asked for on the GPU that was asked for, or says why not."""

from pathlib import Path

import pytest

from configs.models import load_model_profile
from experiments.executors.modal import body
from experiments.executors.modal.body import as_here
from experiments.executors.modal.protocol import Envelope, Outcome
from experiments.executors.port import RunState
from experiments.job.seal import broken_seal
from experiments.job.spec import TestJob
from experiments.reference_model.load import checkpoint_fingerprint
from experiments.remote.extras import ExtrasCopy, read_samples
from experiments.remote.got_gpu import GotGpu
from experiments.shapes.folder import write_shape
from experiments.space.configuration import Configuration
from tests.integration.executors.modal.watching import ended, heads
from tests.simulated.modal.places import ModalPlace, modal_executor
from tests.simulated.specs import PLAN, a_test_job


def test_another_gpu_than_was_asked_for_is_measured_by_nobody(place: ModalPlace, tmp_path: Path):
    place.fake.gpu_given["H100!"] = "NVIDIA H200,151"
    executor = modal_executor(tmp_path, "modal:H100!")
    ref = executor.submit("other", a_test_job())
    status = ended(place, executor, ref)
    assert place.fake.calls[ref].gpu == "H100!"
    assert status.state is RunState.DONE
    assert status.result is not None
    assert status.result.launches == ()
    assert status.result.failure is not None
    assert status.result.failure.cause == (
        "Modal gave NVIDIA H200 with 151 GB where H100! was asked for; "
        "times of another GPU are not compared, so nothing was measured."
    )
    assert heads(place.fake)[ref].got_gpu == "NVIDIA H200"
    assert place.executor().poll(ref) == status


def test_the_gpu_asked_for_measures_and_its_samples_come_back(place: ModalPlace, tmp_path: Path):
    executor = modal_executor(tmp_path, "modal:a100-40gb")
    ref = executor.submit("right", a_test_job())
    assert ended(place, executor, ref).state is RunState.DONE
    pages = tmp_path / "pages"
    copy = ExtrasCopy(pages, "right", "modal:a100-40gb", "J-7")
    copy.update(executor, ref, last=True)
    samples, _ = read_samples(pages / "right", 0)
    assert {(each.host, each.devices[0].name) for each in samples} == {("modal:a100-40gb", "J-7")}
    assert copy.got == (GotGpu("NVIDIA A100-SXM4-40GB", int(42e9)),)
    logs = {path.name for path in (pages / "right" / "launches").iterdir()}
    assert "quick-candidate-0.log" in logs
    assert heads(place.fake)[ref].got_gpu == "NVIDIA A100-SXM4-40GB"


def test_a_container_without_a_gpu_is_no_result(place: ModalPlace, tmp_path: Path):
    place.fake.gpu_given["L4"] = ",0"
    executor = modal_executor(tmp_path, "modal:L4")
    status = ended(place, executor, executor.submit("none", a_test_job()))
    assert status.state is RunState.LOST
    assert "no GPU that can be measured" in str(status.failure)


def test_a_full_disk_of_a_container_is_no_lost_run(monkeypatch: pytest.MonkeyPatch):
    """That of the next container is as large: it would be paid for to find that out."""

    def full(*_: object) -> Envelope:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(body, "_run", full)
    told = Envelope.model_validate_json(
        body.run_body(b"", "fc-1", None, body.Container())  # type: ignore[arg-type]
    )
    assert (told.outcome, told.failure_kind) == (Outcome.FAILED, "disk_full")
    assert told.sentence == "The remote run failed: no space is left on the disk"


NO_ROOM = "OSError: [Errno 28] No space left on device: '/tmp/triton/x'"


def test_a_disk_that_a_job_there_found_full_arrives_here_as_such(place: ModalPlace):
    executor = place.executor()
    full = {"simulated.fails": "load", "simulated.says": NO_ROOM}
    ref = executor.submit("full", a_test_job(full))
    status = ended(place, executor, ref)
    assert (status.state, status.failure_kind) == (RunState.FAILED, "disk_full")
    assert str(status.failure).startswith(
        "The simulated engine failed because a disk is full: no space is left on the disk: '/tmp/triton/x'."
    )
    assert place.executor().poll(ref) == status, "whoever follows it later is told the same"


def test_a_checkpoint_that_is_not_on_modal_is_told_with_the_command_that_puts_it_there(place: ModalPlace):
    job = a_test_job(model="/home/me/qwen", model_fingerprint="0123456789abcdef0123")
    executor = place.executor()
    status = ended(place, executor, executor.submit("model", job))
    assert status.state is RunState.FAILED
    assert str(status.failure).endswith("modal volume put autoinfer-models /home/me/qwen /0123456789abcdef")


def test_a_shape_goes_with_its_job_and_a_model_of_the_hub_is_left_to_it(place: ModalPlace, tmp_path: Path):
    shape = write_shape(load_model_profile("qwen3.5-9b"), Configuration.of({}), tmp_path / "shape")
    made_up = PLAN.model_copy(update={"latency_only": True})
    job = a_test_job(model=str(shape), model_fingerprint=checkpoint_fingerprint(shape), plan=made_up)
    executor = place.executor()
    status = ended(place, executor, executor.submit("shape", job))
    assert status.state is RunState.DONE, status.failure
    cached = "/home/me/.cache/huggingface/hub/models--Qwen--Qwen3.5-4B/snapshots/" + 40 * "a"
    there = as_here(a_test_job(model=cached), None, tmp_path)
    assert there is not None
    assert there.model == cached


def test_a_job_sealed_for_the_target_runs_on_the_containers_one_device(tmp_path: Path):
    fingerprint = "0123456789abcdef0123"
    job = a_test_job(
        device="modal:H100!", model="/home/me/qwen", model_fingerprint=fingerprint, judge_version="1"
    )
    (tmp_path / "0123456789abcdef").mkdir()
    there = as_here(job, "H100!", tmp_path)
    assert isinstance(there, TestJob)
    assert there.device == "cuda:0"
    assert there.model == str(tmp_path / "0123456789abcdef")
    assert broken_seal(there) is None
    changed = as_here(job.model_copy(update={"seed": 7}), "H100!", tmp_path)
    assert isinstance(changed, TestJob)
    assert broken_seal(changed) is not None
