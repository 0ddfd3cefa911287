"""What may become of a pod, by HTTP to the fake of RunPod; the job, the board and the pod are real."""

from dataclasses import replace
from pathlib import Path

import pytest

from experiments.executors.port import RunState
from experiments.executors.runpod import body
from experiments.executors.runpod.api import NoCapacity, Refused, RunPodUnreachable
from tests import postgresql
from tests.integration.executors.conformance import SLOW
from tests.integration.executors.runpod.conftest import BOARD
from tests.integration.executors.runpod.pods import begun, ended, log, made
from tests.simulated.runpod.places import QUICK, RunPodPlace
from tests.simulated.specs import a_test_job


def test_a_pod_that_is_provisioned_is_pending_and_known_elsewhere_and_what_it_costs_is_counted(
    place: RunPodPlace, tmp_path: Path
):
    place.fake.hold = True
    executor = place.executor()
    ref = executor.submit("job7-1a2b3c4d-2", a_test_job())
    assert ref == "autoinfer-job7-1a2b3c4d-2", "a pod is named by job and attempt"
    assert executor.poll(ref).state is RunState.PENDING
    place.folder = tmp_path / "elsewhere"
    elsewhere = place.executor()
    assert elsewhere.reconcile() == [ref]
    assert elsewhere.find("job7-1a2b3c4d-2") == ref
    elsewhere.cancel(ref)
    cost = executor.cost(ref)
    assert cost.usd > 0
    assert executor.cost(ref) == cost
    assert executor.poll(ref).state is RunState.CANCELLED


def test_the_pod_ends_itself_where_nobody_looks(place: RunPodPlace):
    executor = place.executor()
    ref = executor.submit("alone", a_test_job())
    place.wait_for(lambda: not place.fake.pods)
    ends = [key for method, path, key in place.fake.requests if method == "DELETE"]
    assert ends == [place.fake.ever[0].key], "by its own key, which is no other's"
    status = executor.poll(ref)
    assert status.state is RunState.DONE
    assert status.result is not None


def test_a_pod_whose_key_is_not_for_rest_ends_itself_as_runpods_own_command_does(place: RunPodPlace):
    place.fake.rest_refuses_pods = True
    executor = place.executor()
    ref = executor.submit("as-its-command", a_test_job())
    place.wait_for(lambda: not place.fake.pods)
    asked = [path for _, path, key in place.fake.requests if key == place.fake.ever[0].key]
    assert asked == [f"/v2/pods/{place.fake.ever[0].id}", "/graphql"]
    assert executor.poll(ref).state is RunState.DONE


def test_no_capacity_is_asked_for_again_and_starts_nothing_meanwhile(place: RunPodPlace):
    place.fake.capacity = False
    place.fake.hold = True
    executor = place.executor("runpod:L4")
    with pytest.raises(NoCapacity, match="RunPod has no NVIDIA L4 free now"):
        executor.submit("later", a_test_job())
    assert executor.find("later") is None
    place.fake.capacity = True
    ref = executor.submit("later", a_test_job())
    assert made(place) == 1
    executor.cancel(ref)


@pytest.mark.parametrize(
    ("status", "says"), [(402, "Add money"), (403, "right to read and write"), (422, "RunPod refused")]
)
def test_what_runpod_refuses_is_told_in_a_sentence_and_starts_nothing(
    place: RunPodPlace, status: int, says: str
):
    place.fake.status_after_create = status
    with pytest.raises(Refused, match=says):
        place.executor().submit("refused", a_test_job())
    assert place.executor().reconcile() == []


def test_of_two_pods_of_one_name_the_second_ends_itself_before_it_does_anything(place: RunPodPlace):
    """The list is behind, so that the first pod is not found."""
    place.fake.lose_answers = 1
    place.fake.behind = True
    executor = place.executor()
    with pytest.raises(RunPodUnreachable):
        executor.submit("twice", a_test_job())
    place.wait_for(lambda: executor._board.row("twice").owner is not None)  # type: ignore[union-attr]
    place.fake.hold = True
    second = place.fake.create({"name": "autoinfer-twice", "env": place.fake.ever[0].env})
    place.fake.behind = False
    place.fake.start(second)
    assert ended(place, executor, "autoinfer-twice").state is RunState.DONE
    place.wait_for(lambda: not place.fake.pods)
    assert "does nothing" in log(place, 1)


def test_a_pod_that_comes_after_its_run_was_cancelled_does_nothing(place: RunPodPlace):
    place.fake.hold = True
    executor = place.executor()
    ref = executor.submit("late", a_test_job())
    (pod,) = place.fake.ever
    executor.cancel(ref)
    place.fake.start(place.fake.create({"name": ref, "env": pod.env}))
    place.wait_for(lambda: not place.fake.pods)
    assert "was cancelled: this pod does nothing" in log(place, 1)


def test_a_container_that_is_started_again_is_a_lost_run(place: RunPodPlace):
    executor = place.executor()
    ref = executor.submit("again", a_test_job(SLOW))
    begun(place, executor, ref)
    (pod,) = place.fake.ever
    place.fake.halt(pod)
    place.fake.start(pod)
    status = ended(place, executor, ref)
    assert status.state is RunState.LOST
    assert status.failure == "RunPod started the pod's container again."
    place.wait_for(lambda: not place.fake.pods)


@pytest.mark.parametrize("status", ["EXITED", "ERROR"])
def test_a_pod_that_runpod_stops_or_gives_up_is_lost_and_given_back(place: RunPodPlace, status: str):
    executor = place.executor()
    ref = executor.submit("exited", a_test_job(SLOW))
    begun(place, executor, ref)
    place.fake.stop(place.fake.ever[0], status)
    told = ended(place, executor, ref)
    assert (told.state, told.failure) == (RunState.LOST, f"RunPod says of the pod: {status}.")
    assert place.fake.pods == {}


def test_a_job_beyond_its_limit_is_ended_by_its_own_pod(place: RunPodPlace):
    executor = place.executor()
    bound_s = executor.quote(a_test_job(SLOW), 2.0).upper_bound_s
    assert bound_s == 2.0 + 2 * QUICK.startup_s + QUICK.end_s < executor.quote(a_test_job()).upper_bound_s
    ref = executor.submit("limit", a_test_job(SLOW), 2.0)
    place.wait_for(lambda: not place.fake.pods)
    place.wait_for(lambda: place.living(ref) == 0)
    assert "The limit of 2 s is over" in log(place)
    status = executor.poll(ref)
    assert status.state is RunState.TIMED_OUT
    assert "ended at its limit of 2 s, which bounds what it may cost" in str(status.failure)


def test_a_builtin_timeout_error_in_the_job_is_an_end_and_not_a_wait(
    place: RunPodPlace, monkeypatch: pytest.MonkeyPatch
):
    def times_out(*_: object) -> None:
        raise TimeoutError("the device did not answer")

    monkeypatch.setattr(body, "_work", times_out)
    place.fake.hold = True
    executor = place.executor()
    ref = executor.submit("times-out", a_test_job())
    body.run_body(executor._board, "times-out", place.fake.ever[0].id, body.Container(place.folder))
    status = executor.poll(ref)
    assert (status.state, status.failure) == (
        RunState.LOST,
        "The pod failed: TimeoutError: the device did not answer",
    )
    assert place.fake.pods == {}


def test_a_full_disk_of_a_pod_is_told_as_that_and_not_as_a_lost_run(
    place: RunPodPlace, monkeypatch: pytest.MonkeyPatch
):
    """The disk of the next pod is as large: it would be paid for to find that out."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(body, "_work", full)
    place.fake.hold = True
    executor = place.executor()
    ref = executor.submit("full", a_test_job())
    body.run_body(executor._board, "full", place.fake.ever[0].id, body.Container(place.folder))
    status = executor.poll(ref)
    assert (status.state, status.failure_kind) == (RunState.FAILED, "disk_full")
    assert status.failure == "The pod failed: no space is left on the disk"


def test_a_run_that_was_deleted_from_the_board_is_lost_and_its_pod_ends_itself(
    place: RunPodPlace, pods_server: postgresql.Server
):
    """What a result that has expired is elsewhere: here nothing expires, and its owner may delete it."""
    executor = place.executor()
    ref = executor.submit("deleted", a_test_job(SLOW))
    begun(place, executor, ref)
    for table in ("autoinfer_pod_piece", "autoinfer_pod_run"):
        pods_server.execute(f"DELETE FROM {table}", BOARD)
    status = executor.poll(ref)
    assert (status.state, status.failure) == (RunState.LOST, f"The board knows no run {ref}.")
    place.wait_for(lambda: not place.fake.pods)


def test_a_pod_that_never_begins_is_ended_from_here(place: RunPodPlace):
    place.fake.hold = True
    executor = place.executor(patience=replace(QUICK, startup_s=0.3))
    ref = executor.submit("stuck", a_test_job())
    status = ended(place, executor, ref)
    assert status.state is RunState.FAILED
    assert place.fake.pods == {}


def test_a_pod_that_is_not_known_is_lost_and_one_of_nobody_is_found_and_ended(place: RunPodPlace):
    place.fake.hold = True
    executor = place.executor()
    assert executor.poll("autoinfer-nobodys").state is RunState.LOST
    place.fake.create({"name": "autoinfer-nobodys"})
    place.fake.create({"name": "of-another-use"})
    assert executor.reconcile() == ["autoinfer-nobodys"]
    executor.cancel("autoinfer-nobodys")
    assert [pod.name for pod in place.fake.pods.values()] == ["of-another-use"]
    place.fake.reset()
