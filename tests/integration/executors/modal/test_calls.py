"""What may become of a call on Modal, each through Modal's real client library."""

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from grpclib.const import Status as Grpc
from modal_proto import api_pb2

from experiments.executors.modal.client import Calls, ModalUnreachable
from experiments.executors.modal.protocol import CLAIMS, HEADS, Outcome
from experiments.executors.port import RunState, Status
from tests.integration.executors.conformance import SLOW
from tests.integration.executors.modal.watching import begun, ended, heads
from tests.simulated.modal.places import QUICK, ModalPlace, modal_executor
from tests.simulated.specs import a_test_job
from tests.waiting import PATIENCE_S


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
