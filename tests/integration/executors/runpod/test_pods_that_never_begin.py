"""What pods cost that RunPod never starts, while somebody looks and while nobody does."""

from dataclasses import replace

import pytest

from experiments.executors.port import RunState
from experiments.executors.runpod.api import ImageUntried, NoCapacity
from tests.simulated.runpod.places import QUICK, RunPodPlace
from tests.simulated.specs import a_test_job

IMPATIENT = replace(QUICK, startup_s=0.2, end_s=0.0)


def test_one_pod_tries_an_image_that_never_began_and_the_others_wait_for_it(place: RunPodPlace):
    place.fake.hold = True
    executor, other = place.executor(), place.executor()
    first = executor.submit("first", a_test_job())
    for each in (executor, other):
        with pytest.raises(ImageUntried, match="No pod has begun with the image example/autoinfer:1 yet"):
            each.submit("second", a_test_job())
        assert each.find("second") is None
    assert len(place.fake.ever) == 1
    assert executor.submit("first", a_test_job()) == first, "it is found, not made again"
    place.fake.start(place.fake.ever[0])
    place.wait_for(lambda: executor.poll(first).state is RunState.DONE)
    place.fake.hold = True
    for each, key in ((executor, "second"), (other, "third")):
        each.submit(key, a_test_job())
    for key in ("second", "third"):
        executor.cancel(f"autoinfer-{key}")


def test_what_was_refused_keeps_no_other_from_trying_the_image(place: RunPodPlace):
    place.fake.hold, place.fake.capacity = True, False
    executor = place.executor("runpod:L4")
    with pytest.raises(NoCapacity):
        executor.submit("no-room", a_test_job())
    place.fake.capacity = True
    ref = executor.submit("room", a_test_job())
    assert executor.find("no-room") is None
    executor.cancel(ref)


def test_the_next_that_uses_runpod_ends_a_pod_that_never_began_whoever_asked_for_it(place: RunPodPlace):
    place.fake.hold = True
    ref = place.executor().submit("stuck", a_test_job())  # and its process is gone
    place.wait_for(lambda: bool(place.executor()._board.overdue(0.2, 0.0)))
    later = place.executor(patience=IMPATIENT)
    other = later.submit("other", a_test_job())
    assert [pod.name for pod in place.fake.pods.values()] == [other]
    status = place.executor().poll(ref)
    assert status.state is RunState.FAILED, "another attempt would be paid for, too"
    assert "No pod has begun with the image example/autoinfer:1 yet: can RunPod pull it" in str(
        status.failure
    )
    assert later.cost(ref).usd > 0
    later.cancel(other)


def test_a_pod_that_outlives_the_end_of_its_run_is_ended_by_the_next_that_uses_runpod(place: RunPodPlace):
    place.fake.hold, place.fake.fails_to_end = True, True
    executor = place.executor(patience=replace(QUICK, startup_s=0.1))
    ref = executor.submit("stays", a_test_job())
    place.wait_for(lambda: executor.poll(ref).state is RunState.FAILED)
    assert place.fake.named(ref)
    place.fake.fails_to_end = False
    place.executor(patience=IMPATIENT).poll("autoinfer-another")
    assert place.fake.pods == {}


def test_a_run_longer_than_its_limit_is_timed_out_by_the_next_that_uses_runpod(place: RunPodPlace):
    place.fake.hold = True
    executor = place.executor()
    ref = executor.submit("long", a_test_job(), 0.2)
    executor._board.claim("long", "pod/boot")
    place.wait_for(lambda: bool(executor._board.overdue(0.1, 0.0)))
    place.executor(patience=replace(IMPATIENT, startup_s=0.1)).poll("autoinfer-another")
    assert place.fake.pods == {}
    assert executor.poll(ref).state is RunState.TIMED_OUT


def test_with_an_image_that_has_begun_before_another_attempt_is_worth_it(place: RunPodPlace):
    executor = place.executor(patience=IMPATIENT)
    place.fake.hold = True
    executor.submit("before", a_test_job())
    executor._board.claim("before", "pod/boot")
    ref = executor.submit("slow", a_test_job())
    place.wait_for(lambda: executor.poll(ref).state is not RunState.PENDING)
    assert executor.poll(ref).state is RunState.LOST
    executor.cancel("autoinfer-before")


def test_a_quote_says_what_a_pod_costs_that_nobody_looks_at(place: RunPodPlace):
    basis = place.executor("runpod:L4").quote(a_test_job()).basis
    assert "by RunPod's catalog, with disk" in basis
    assert basis.endswith("as much again for each hour that a pod which never begins is left alone")
