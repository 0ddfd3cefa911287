"""Pods, boards and processes that don't answer, or are gone: no run is lost, and none is paid for twice."""

import os
import re
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from configs.errors import AutoinferError
from configs.quantities import parse_duration_s
from experiments.executors.port import RunState
from experiments.executors.runpod.api import RunPodUnreachable
from experiments.executors.runpod.board import BoardUnreachable
from experiments.kill_points import KILL_VARIABLE, KillPoint
from tests import postgresql
from tests.integration.executors.conformance import SLOW
from tests.integration.executors.runpod.pods import OPEN, begun, ended, log, made
from tests.simulated.runpod.places import QUICK, RunPodPlace
from tests.simulated.specs import a_test_job
from tests.waiting import PATIENCE_S

MOST_CUTS = 6
WAIT_S = 600


def test_a_create_whose_answer_was_lost_makes_one_pod(place: RunPodPlace):
    place.fake.hold = True
    place.fake.lose_answers = 1
    executor = place.executor()
    with pytest.raises(RunPodUnreachable):
        executor.submit("lost", a_test_job())
    ref = executor.submit("lost", a_test_job())
    assert executor.find("lost") == ref
    assert made(place) == 1
    assert executor.cost(ref).usd > 0
    executor.cancel(ref)


def test_a_pod_that_does_not_reach_the_board_gives_itself_back(place: RunPodPlace):
    place.board_from_pod = re.sub(r":\d+/", ":1/", place.board_from_pod)
    place.fake.environment = {"FAKE_REACH_S": "0.5"}
    executor = place.executor()
    ref = executor.submit("cut-off", a_test_job())
    place.wait_for(lambda: not place.fake.pods)
    assert ended(place, executor, ref).state is RunState.LOST
    assert "The board can't be reached" in log(place)


def test_a_rate_limit_is_obeyed_for_as_long_as_runpod_says(place: RunPodPlace):
    place.fake.hold = True
    executor = place.executor()
    ref = executor.submit("limited", a_test_job())
    place.fake.limited = [WAIT_S]
    with pytest.raises(RunPodUnreachable, match="fewer requests"):
        executor.poll(ref)
    asked = len(place.fake.requests)
    with pytest.raises(RunPodUnreachable, match="for another") as refused:
        executor.poll(ref)
    found = re.search(r"for another ([^.]+)\.", str(refused.value))
    assert found is not None
    assert WAIT_S - PATIENCE_S < parse_duration_s(found[1]) <= WAIT_S, "what is left of it"
    assert len(place.fake.requests) == asked, "nothing is asked meanwhile"
    other = place.executor()
    assert other.poll(ref).state is RunState.PENDING
    other.cancel(ref)


def test_a_cut_network_changes_no_run(place: RunPodPlace):
    executor = place.executor()
    ref = executor.submit("cut", a_test_job(SLOW))
    begun(place, executor, ref)
    place.fake.cut = True
    with pytest.raises(RunPodUnreachable):
        executor.poll(ref)
    with pytest.raises(RunPodUnreachable):
        executor.cancel(ref)
    place.fake.cut = False
    executor.cancel(ref)
    assert executor.poll(ref).state is RunState.CANCELLED


def test_an_answer_of_something_else_changes_no_run(place: RunPodPlace):
    place.fake.hold = True
    executor = place.executor()
    ref = executor.submit("garbled", a_test_job())
    place.fake.garbled = True
    for ask in (executor.poll, executor.cancel):
        with pytest.raises(RunPodUnreachable):
            ask(ref)
    with pytest.raises(RunPodUnreachable):
        executor.submit("another", a_test_job())
    place.fake.garbled = False
    executor.cancel(ref)
    assert made(place) == 1


def test_a_pod_whose_connections_to_the_board_are_cut_again_and_again_tells_everything_once(
    place: RunPodPlace, pods_server: postgresql.Server
):
    cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'autoinfer_pod'"
    executor = place.executor()
    ref = executor.submit("cuts", a_test_job())
    cuts = 0
    while executor.poll(ref).state in OPEN:
        if cuts < MOST_CUTS:
            cuts += len(pods_server.execute(cut))
    status = executor.poll(ref)
    assert cuts > 0
    assert status.state is RunState.DONE
    assert status.result is not None
    assert len(status.result.launches) == 4


def test_a_board_that_does_not_answer_is_asked_again(place: RunPodPlace):
    place.board = re.sub(r":\d+/", ":1/", place.board)
    with pytest.raises(BoardUnreachable, match="can't be reached"):
        place.executor().submit("nowhere", a_test_job())
    assert made(place) == 0


def test_a_pod_that_runpod_does_not_end_is_told_and_stays_open(place: RunPodPlace):
    place.fake.hold, place.fake.fails_to_end = True, True
    executor = place.executor(patience=replace(QUICK, gone_s=0.1))
    ref = executor.submit("stays", a_test_job())
    with pytest.raises(AutoinferError, match="it may still cost money"):
        executor.cancel(ref)
    assert executor.reconcile() == [ref]
    place.fake.fails_to_end = False
    executor.cancel(ref)


def submitting(place: RunPodPlace, key: str, kill_at: KillPoint | None) -> subprocess.Popen[str]:
    words = [str(place.folder), place.fake.url, place.board, place.board_from_pod, key]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.simulated.runpod.submitting", *words],
        env={**os.environ, **({} if kill_at is None else {KILL_VARIABLE: kill_at.value})},
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("kill_at", [KillPoint.BEFORE_REMOTE_SUBMIT, KillPoint.BEFORE_REF_STORED])
def test_a_process_killed_at_a_named_point_leaves_one_paid_run_and_its_result(
    place: RunPodPlace, kill_at: KillPoint
):
    process = submitting(place, "killed", kill_at)
    assert process.communicate(timeout=PATIENCE_S)[0] == ""
    assert process.returncode == -signal.SIGKILL
    executor = place.executor()
    ref = executor.find("killed") or executor.submit("killed", a_test_job())
    status = ended(place, executor, ref)
    assert status.state is RunState.DONE
    assert status.result is not None
    assert made(place) == 1
    assert executor.cost(ref).usd > 0


def test_a_process_killed_while_its_job_runs_is_followed_by_another(place: RunPodPlace):
    process = submitting(place, "killed", None)
    assert process.stdout is not None
    ref = process.stdout.readline().strip()
    process.kill()
    process.communicate()
    executor = place.executor()
    assert executor.find("killed") == ref
    assert ended(place, executor, ref).state is RunState.DONE
    assert made(place) == 1
