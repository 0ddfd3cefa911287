"""What may become of a call on Modal, each through Modal's real client library."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from grpclib.const import Status as Grpc
from modal_proto import api_pb2

from configs.models import load_model_profile
from experiments.executors.modal.body import Boards, Container, as_here, run_body
from experiments.executors.modal.client import Calls, ModalUnreachable, NotDeployed
from experiments.executors.modal.deployment import STARTUP_S
from experiments.executors.modal.executor import END_S, ModalExecutor
from experiments.executors.modal.protocol import CLAIMS, HEADS, Head, Outcome
from experiments.executors.port import RunState, Status
from experiments.job.seal import broken_seal
from experiments.job.spec import TestJob
from experiments.kill_points import KILL_VARIABLE, KillPoint
from experiments.measurement.evidence import Stage
from experiments.reference_model.load import checkpoint_fingerprint
from experiments.remote.extras import ExtrasCopy, read_samples
from experiments.remote.got_gpu import GotGpu
from experiments.shapes.folder import write_shape
from experiments.space.configuration import Configuration
from tests.integration.executors.conformance import SLOW
from tests.simulated.modal.places import PATIENCE_S, QUICK, ModalPlace, modal_executor
from tests.simulated.modal.server import FakeModal
from tests.simulated.places import JOB_COMMAND
from tests.simulated.specs import PLAN, a_test_job

OPEN = (RunState.PENDING, RunState.RUNNING)


def ended(place: ModalPlace, executor: ModalExecutor, ref: str) -> Status:
    place.wait_for(lambda: executor.poll(ref).state not in OPEN)
    return executor.poll(ref)


def heads(fake: FakeModal) -> dict[str, Head]:
    import modal

    found = modal.Dict.from_name(HEADS, create_if_missing=True)
    return {ref: Head.model_validate_json(told) for ref, told in found.items()}


def begun(place: ModalPlace, executor: ModalExecutor, ref: str) -> None:
    def measures() -> bool:
        progress = executor.poll(ref).progress
        return progress is not None and progress.stage == "quick"

    place.wait_for(measures)


def test_a_call_that_waits_for_a_container_is_pending_and_known_to_other_machines(
    place: ModalPlace, tmp_path: Path
):
    place.fake.hold = True
    executor = place.executor()
    ref = executor.submit("waits", a_test_job())
    assert executor.poll(ref).state is RunState.PENDING
    elsewhere = modal_executor(tmp_path / "elsewhere")
    assert elsewhere.reconcile() == [ref]
    assert elsewhere.key_of(ref) == "waits"
    elsewhere.cancel(ref)
    assert executor.poll(ref).state is RunState.CANCELLED
    assert elsewhere.poll(ref).state is RunState.CANCELLED


def test_another_machine_reads_a_run_to_its_result(place: ModalPlace, tmp_path: Path):
    executor = place.executor()
    ref = executor.submit("job1", a_test_job())
    here = ended(place, executor, ref)
    elsewhere = modal_executor(tmp_path / "elsewhere")
    assert ended(place, elsewhere, ref).result == here.result
    assert elsewhere.logs(ref) == executor.logs(ref)


def test_a_builtin_timeout_error_in_the_job_is_an_end_and_not_a_wait(
    place: ModalPlace, monkeypatch: pytest.MonkeyPatch
):
    from experiments.executors.modal import body

    def times_out(*_: object) -> None:
        raise TimeoutError("the device did not answer")

    monkeypatch.setattr(body, "_work", times_out)
    import modal

    claims, others = modal.Dict.from_name(CLAIMS), modal.Dict.from_name(HEADS)
    asked = place.executor()._asked("k", a_test_job(), None)
    told = body.run_body(asked.packed(), "fc-1", body.Boards(claims, others, others), body.Container())
    assert json.loads(told)["outcome"] == Outcome.LOST
    assert json.loads(told)["sentence"] == "The remote run failed: TimeoutError: the device did not answer"


def test_a_builtin_timeout_error_of_a_function_of_other_code_looks_as_if_it_ran_until_its_limits_are_over(
    place: ModalPlace, monkeypatch: pytest.MonkeyPatch
):
    """What Modal's library does with one: why the body returns an envelope, and why waiting has an end."""
    place.fake.raises = True
    executor = place.executor()
    ref = executor.submit("raises", a_test_job())
    place.wait_for(lambda: place.fake.calls[ref].result is not None)
    assert place.fake.calls[ref].result.status == api_pb2.GenericResult.GENERIC_STATUS_FAILURE
    assert Calls().result(ref) is None
    assert executor.poll(ref).state is RunState.PENDING
    monkeypatch.setattr("experiments.executors.modal.following.LONGEST_S", -10_000_000)
    status = ended(place, executor, ref)
    assert status.state is RunState.LOST
    assert "told nothing for longer than its limits allow" in str(status.failure)


def test_a_container_that_fails_is_lost_with_its_last_words(place: ModalPlace):
    executor = place.executor()
    ref = executor.submit("fails", a_test_job(SLOW))
    begun(place, executor, ref)
    with place.fake.log_of(ref).open("a") as log:
        log.write("CUDA error: an illegal memory access\n")
    place.fake.crash(ref)
    status = ended(place, executor, ref)
    assert status.state is RunState.LOST
    assert "said last: CUDA error: an illegal memory access" in str(status.failure)
    said = executor.logs(ref)
    assert said is not None
    assert "CUDA error: an illegal memory access" in said.text
    cost = executor.cost(ref)
    assert cost.wall_s > 0
    assert executor.cost(ref) == modal_executor(place.folder).cost(ref) == cost, "it costs no more by itself"


def test_a_job_is_ended_by_its_own_body_at_the_limit_that_bounds_its_price(place: ModalPlace):
    executor = place.executor()
    bound_s = executor.quote(a_test_job(SLOW), 2.0).upper_bound_s
    assert bound_s == 2.0 + END_S + 2 * STARTUP_S
    ref = executor.submit("bounded", a_test_job(SLOW), 2.0)
    assert place.fake.calls[ref].timeout_s == 2 + END_S, "and Modal ends it soon after, should it hang"
    status = ended(place, executor, ref)
    assert status.state is RunState.TIMED_OUT
    assert "ended at its limit of 2s, which bounds what it may cost" in str(status.failure)
    assert place.living(ref) == 0
    assert executor.cost(ref).wall_s < bound_s
    assert place.executor().poll(ref) == status


def test_a_call_whose_body_does_not_end_is_ended_by_modal_at_its_time_limit(
    place: ModalPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("experiments.executors.modal.executor.END_S", -1)
    executor = modal_executor(tmp_path, limits_s={Stage.QUICK: 3.0})
    ref = executor.submit("long", a_test_job(SLOW))
    status = ended(place, executor, ref)
    assert status.state is RunState.TIMED_OUT
    assert "reached its time limit" in str(status.failure)
    assert place.living(ref) == 0
    assert place.executor().poll(ref) == status


def test_a_preempted_call_starts_again_on_the_same_input_and_only_its_second_start_counts(place: ModalPlace):
    executor = place.executor()
    ref = executor.submit("preempted", a_test_job(SLOW))
    begun(place, executor, ref)
    before = executor.logs(ref)
    place.fake.preempt(ref)
    place.wait_for(lambda: heads(place.fake)[ref].start == 2)
    begun(place, executor, ref)
    after = executor.logs(ref)
    assert before is not None
    assert after is not None
    assert before.text.count("time launch pair 1") == after.text.count("time launch pair 1") == 1
    assert place.fake.calls[ref].starts == 2
    assert executor.cost(ref).wall_s > 0
    executor.cancel(ref)
    assert executor.poll(ref).state is RunState.CANCELLED


class Board(dict[str, str]):
    """One of Modal's Dicts, of which the body uses no more than this."""

    def put(self, key: str, value: str, *, skip_if_exists: bool = False) -> bool:
        if skip_if_exists and key in self:
            return False
        self[key] = value
        return True


@pytest.mark.parametrize("left_s", [-1.0, 1.0], ids=["before it begins", "while it runs"])
def test_a_call_that_is_started_again_ends_when_the_time_that_was_quoted_for_it_is_over(
    place: ModalPlace, left_s: float
):
    """Modal's own limit begins anew with each start, and each start is paid for."""
    asked = place.executor()._asked("again", a_test_job(SLOW), None)
    assert asked.within_s == place.executor()._timeout_s(a_test_job(SLOW))
    asked = asked.model_copy(update={"within_s": 100.0})
    begun_at_s = time.time() - 100.0 + left_s
    before = Head(call_id="fc-1", key="again", gpu=None, start=1, first_began_at_s=begun_at_s)
    claims, told = Board({"again": "fc-1", "start:fc-1:1": "fc-1"}), Board({"fc-1": before.model_dump_json()})
    container = Container(place.folder, place.folder, command=JOB_COMMAND, tell_s=0.05)
    envelope = json.loads(run_body(asked.packed(), "fc-1", Boards(claims, told, Board()), container))
    assert (envelope["outcome"], envelope["start"]) == (Outcome.LOST, 2)
    assert "the time that was quoted for it is used up" in envelope["sentence"]
    assert envelope["ended_at_s"] - begun_at_s >= 100.0
    assert Head.model_validate_json(told["fc-1"]).ended


def test_a_first_start_is_ended_by_modals_own_limit_alone(place: ModalPlace):
    asked = place.executor()._asked("once", a_test_job(), None).model_copy(update={"within_s": 0.0})
    container = Container(place.folder, place.folder, command=JOB_COMMAND, tell_s=0.05)
    told = run_body(asked.packed(), "fc-1", Boards(Board(), Board(), Board()), container)
    assert json.loads(told)["outcome"] == Outcome.DONE


class Clock:
    """The clock of this machine, so many seconds off; that of a stopwatch is right."""

    def __init__(self, off_s: float) -> None:
        self.off_s = off_s

    monotonic = staticmethod(time.monotonic)

    def time(self) -> float:
        return time.time() + self.off_s


@pytest.mark.parametrize("off_s", [-3600.0, 3600.0])
def test_a_wrong_clock_hides_no_crash_and_asks_modal_no_more_often(
    place: ModalPlace, off_s: float, monkeypatch: pytest.MonkeyPatch
):
    """A head has the container's time, which this machine's clock need not agree with."""
    monkeypatch.setattr("experiments.executors.modal.following.time", Clock(off_s))
    patient = place.executor()
    patient._follower._patience = replace(QUICK, silent_s=PATIENCE_S, ask_s=0.0)
    ref = patient.submit("clock", a_test_job(SLOW))
    begun(place, patient, ref)

    def is_asked() -> bool:
        before = place.fake.counts["FunctionGetOutputs"]
        assert patient.poll(ref).state is RunState.RUNNING
        return place.fake.counts["FunctionGetOutputs"] > before

    place.wait_for(lambda: not is_asked())
    assert not any(is_asked() for _ in range(5)), "one that speaks is not asked for its result"
    executor = place.executor()
    place.fake.crash(ref)
    assert ended(place, executor, ref).state is RunState.LOST


def test_no_secret_goes_into_a_call_a_dict_a_log_or_a_file(
    place: ModalPlace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    planted = {"HF_TOKEN": "hf_planted", "RUNPOD_API_KEY": "rpa_planted", "PGPASSWORD": "pg-planted"}
    for name, secret in planted.items():
        monkeypatch.setenv(name, secret)
    secrets = [*planted.values(), os.environ["MODAL_TOKEN_ID"], os.environ["MODAL_TOKEN_SECRET"]]
    executor = place.executor()
    ref = executor.submit("secret", a_test_job())
    assert ended(place, executor, ref).state is RunState.DONE
    asked = executor._asked("secret", a_test_job(), None)
    assert asked.packed() in place.fake.calls[ref].args.args, "what is looked into is what was sent"
    files = [path for root in (place.folder, place.fake.folder) for path in root.rglob("*") if path.is_file()]
    written = [asked.model_dump_json().encode(), caplog.text.encode(), place.fake.calls[ref].args.args]
    written += [path.read_bytes() for path in files]
    written += [value for board in place.fake.dicts.values() for value in board.values()]
    assert not [secret for secret in secrets for data in written if secret.encode() in data]


def test_an_unknown_id_is_lost_with_a_sentence(place: ModalPlace):
    status = place.executor().poll("fc-unknown")
    assert status.state is RunState.LOST
    assert status.failure == "Modal knows no call fc-unknown."


def test_an_expired_result_is_told_as_such(place: ModalPlace):
    executor = place.executor()
    ref = executor.submit("old", a_test_job())
    place.wait_for(lambda: place.fake.calls[ref].result is not None)
    place.fake.calls[ref].expired = True
    for board in place.fake.dicts.values():
        board.clear()
    status = ended(place, executor, ref)
    assert status.state is RunState.LOST
    assert "has expired: Modal keeps results 7 days" in str(status.failure)


def test_a_result_that_expired_after_its_records_were_copied_is_no_loss(place: ModalPlace):
    executor = place.executor()
    ref = executor.submit("copied", a_test_job())
    place.wait_for(lambda: place.fake.calls[ref].result is not None)
    place.fake.calls[ref].expired = True
    status = ended(place, executor, ref)
    assert status.state is RunState.DONE
    assert status.result is not None
    assert len(status.result.launches) == 4


def test_a_piece_that_is_gone_makes_no_result(place: ModalPlace):
    executor = place.executor()
    ref = executor.submit("torn", a_test_job())
    place.wait_for(lambda: place.fake.calls[ref].result is not None)
    place.fake.dicts["di-autoinfer-pieces"].clear()
    status = ended(place, executor, ref)
    assert status.state is RunState.LOST
    assert "of what call" in str(status.failure)
    assert "is gone" in str(status.failure)


def test_a_rate_limit_and_a_cut_network_change_no_run(place: ModalPlace):
    executor = place.executor()
    ref = executor.submit("cut", a_test_job(SLOW))
    begun(place, executor, ref)
    progress = executor.poll(ref).progress
    place.fake.refuse["DictContents"] = [Grpc.RESOURCE_EXHAUSTED]
    with pytest.raises(ModalUnreachable, match="asks for fewer requests"):
        executor.poll(ref)
    place.fake.loopback.cut()
    try:
        with pytest.raises(ModalUnreachable, match="Modal can't be reached"):
            executor.poll(ref)
    finally:
        place.fake.loopback.mend()
    assert executor.poll(ref) == Status(RunState.RUNNING, progress)
    executor.cancel(ref)
    assert executor.poll(ref).state is RunState.CANCELLED


def test_a_submit_that_modal_refuses_may_be_repeated(place: ModalPlace):
    executor = place.executor()
    place.fake.refuse["FunctionMap"] = [Grpc.RESOURCE_EXHAUSTED]
    with pytest.raises(ModalUnreachable, match="asks for fewer requests"):
        executor.submit("limited", a_test_job())
    ref = executor.submit("limited", a_test_job())
    assert ended(place, executor, ref).state is RunState.DONE
    assert list(place.fake.calls) == [ref]


def test_a_submit_whose_answer_was_lost_on_the_way_makes_one_call(place: ModalPlace):
    place.fake.lose_answer["FunctionMap"] = 1
    executor = place.executor()
    ref = executor.submit("lost-answer", a_test_job())
    assert ended(place, executor, ref).state is RunState.DONE
    assert list(place.fake.calls) == [ref]


def test_of_two_calls_for_one_key_the_second_gives_way_before_it_does_anything(place: ModalPlace):
    executor = place.executor()
    place.fake.hold = True
    ref = executor.submit("twice", a_test_job())
    other = Calls().spawn(executor._asked("twice", a_test_job(), None).packed(), None, 60)
    place.fake._start(place.fake.calls[other])
    place.wait_for(lambda: place.fake.calls[other].result is not None)
    place.fake.release()
    status = ended(place, executor, ref)
    assert status.state is RunState.DONE
    assert status.result is not None
    told = heads(place.fake)
    assert told[other].start == 1
    assert told[ref].start == 0
    assert executor.cost(ref).wall_s > 0


def test_a_cancelled_key_is_begun_by_no_call_whose_id_was_lost(place: ModalPlace):
    executor = place.executor()
    place.fake.hold = True
    ref = executor.submit("gone", a_test_job())
    lost = Calls().spawn(executor._asked("gone", a_test_job(), None).packed(), None, 60)
    executor.cancel(ref)
    place.fake.release()
    place.wait_for(lambda: place.fake.calls[lost].result is not None)
    envelope = Calls().result(lost)
    assert envelope is not None
    assert envelope.outcome is Outcome.CANCELLED
    assert lost not in heads(place.fake)


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


def test_nothing_deployed_and_another_version_are_refused_with_what_to_do(place: ModalPlace):
    executor = place.executor()
    app_id = place.fake.apps["autoinfer"]
    there = place.fake.published[app_id]
    place.fake.published[app_id] = {"job_v0": next(iter(there.values()))}
    try:
        with pytest.raises(
            NotDeployed, match=r"another version \(job_v0; .*job_v1\).*autoinfer modal deploy"
        ):
            executor.submit("v", a_test_job())
    finally:
        place.fake.published[app_id] = there
    place.fake.apps = {}
    try:
        with pytest.raises(NotDeployed, match="There is no app 'autoinfer' on Modal"):
            executor.submit("v", a_test_job())
    finally:
        place.fake.apps = {"autoinfer": app_id}
    assert place.fake.calls == {}


def submitting(folder: Path, key: str, kill_at: KillPoint | None) -> subprocess.Popen[str]:
    environment = {**os.environ, **({} if kill_at is None else {KILL_VARIABLE: kill_at.value})}
    command = [sys.executable, "-P", "-m", "tests.simulated.modal.submitting", str(folder), key]
    root = str(Path(__file__).parents[4])
    environment["PYTHONPATH"] = root + os.pathsep + environment.get("PYTHONPATH", "")
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("kill_at", "begins_before", "calls"),
    [
        (KillPoint.BEFORE_REMOTE_SUBMIT, True, 1),
        (KillPoint.BEFORE_REF_STORED, True, 1),
        (KillPoint.BEFORE_REF_STORED, False, 2),
        (KillPoint.BEFORE_REMOTE_RESULT_STORED, True, 1),
    ],
)
def test_a_process_killed_at_a_named_point_leaves_one_paid_run_and_its_result(
    place: ModalPlace, kill_at: KillPoint, begins_before: bool, calls: int
):
    place.fake.hold = not begins_before
    process = submitting(place.folder, "killed", kill_at)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    if kill_at is not KillPoint.BEFORE_REMOTE_SUBMIT and begins_before:
        place.wait_for(lambda: any(head.start for head in heads(place.fake).values()))
    executor = place.executor()
    ref = executor.submit("killed", a_test_job())
    place.fake.release()
    status = ended(place, executor, ref)
    assert status.state is RunState.DONE, status.failure
    assert status.result is not None
    assert len(status.result.launches) == 4
    assert len(place.fake.calls) == calls
    place.wait_for(lambda: all(call.result is not None for call in place.fake.calls.values()))
    assert sum(head.start for head in heads(place.fake).values()) == 1
    assert executor.reconcile() == []


def test_a_process_killed_while_its_job_runs_is_followed_by_another(place: ModalPlace):
    place.fake.hold = True
    process = submitting(place.folder, "killed", None)
    assert process.stdout is not None
    ref = process.stdout.readline().strip()
    process.kill()
    process.communicate(timeout=60)
    place.fake.release()
    executor = place.executor()
    assert executor.submit("killed", a_test_job()) == ref
    assert ended(place, executor, ref).state is RunState.DONE
    assert list(place.fake.calls) == [ref]
