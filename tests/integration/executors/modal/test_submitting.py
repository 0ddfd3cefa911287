"""A submit to Modal makes one call that works, whatever is lost, refused or killed on the way."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from grpclib.const import Status as Grpc

from experiments.executors.modal.client import Calls, ModalUnreachable, NotDeployed
from experiments.executors.modal.protocol import Outcome
from experiments.executors.port import RunState
from experiments.kill_points import KILL_VARIABLE, KillPoint
from tests.integration.executors.modal.watching import ended, heads
from tests.simulated.modal.places import ModalPlace
from tests.simulated.specs import a_test_job
from tests.waiting import PATIENCE_S


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
    process.communicate(timeout=PATIENCE_S)
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
    process.communicate(timeout=PATIENCE_S)
    place.fake.release()
    executor = place.executor()
    assert executor.submit("killed", a_test_job()) == ref
    assert ended(place, executor, ref).state is RunState.DONE
    assert list(place.fake.calls) == [ref]
