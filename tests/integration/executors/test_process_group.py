"""Which group of processes is meant by what was written down of it, with real processes."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import psutil
import pytest

from experiments.executors.process_group import (
    START_TOLERANCE_S,
    ProcessGroup,
    end_group,
    leader_is_alive,
    led_by,
    members,
)
from tests.simulated.clock import HOUR_S, boot_again, set_clock, tell_no_boot
from tests.waiting import wait_for

TWO = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; print(end='1', flush=True); time.sleep(600)"],
                         stdout=subprocess.PIPE)
child.stdout.read(1)
print(child.pid, flush=True)
sys.stdin.read()
"""
"""A leader that ends when its standard input does, and a child of it that stays. The child writes one
character and no more: what it wrote after its leader is gone would end it."""


@contextmanager
def two_processes(*, session: bool = True) -> Iterator[tuple["subprocess.Popen[str]", psutil.Process]]:
    """A group of two, in a session of its own, or in that of the tests, as jobs of a shell are in its own."""
    with ExitStack() as ending:
        leader = subprocess.Popen(
            [sys.executable, "-c", TWO],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=session,
            process_group=None if session else 0,
        )
        ending.enter_context(leader)
        ending.callback(leader.kill)
        assert leader.stdout is not None
        child = psutil.Process(int(leader.stdout.readline()))
        ending.callback(end_one, child)
        yield leader, child


def end_one(process: psutil.Process) -> None:
    if is_there(process.pid):
        process.kill()


def is_there(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def two() -> Iterator[tuple["subprocess.Popen[str]", psutil.Process]]:
    with two_processes() as found:
        yield found


Two = tuple["subprocess.Popen[str]", psutil.Process]


def without_leader(two: Two) -> ProcessGroup:
    """The group of which the child alone is left."""
    leader, child = two
    group = led_by(leader.pid)
    leader.kill()
    leader.wait()
    assert child.is_running()
    return group


def test_a_group_is_the_same_however_the_clock_is_set(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    leader, child = two
    group = led_by(leader.pid)
    for by_s in (-HOUR_S, 2 * HOUR_S):
        set_clock(monkeypatch, by_s)
        assert abs(led_by(leader.pid).started_at_s - group.started_at_s) >= HOUR_S
        assert leader_is_alive(group)
        assert {each.pid for each in members(group)} == {leader.pid, child.pid}


@pytest.mark.parametrize("by_s", [-HOUR_S, HOUR_S])
def test_what_outlived_its_leader_is_ended_however_the_clock_was_set(
    two: Two, monkeypatch: pytest.MonkeyPatch, by_s: float
) -> None:
    group = without_leader(two)
    set_clock(monkeypatch, by_s)
    assert not leader_is_alive(group)
    assert end_group(group)
    wait_for(lambda: not is_there(two[1].pid))


def assert_left_alone(group: ProcessGroup, *pids: int) -> None:
    assert not leader_is_alive(group)
    assert members(group) == []
    assert not end_group(group)
    assert all(is_there(pid) for pid in pids)


@pytest.mark.parametrize("later", [-1, 1])
def test_a_leader_that_started_at_another_tick_has_been_given_the_id_again(two: Two, later: int) -> None:
    leader, child = two
    group = led_by(leader.pid)
    assert group.started_ticks is not None
    assert_left_alone(replace(group, started_ticks=group.started_ticks + later), leader.pid, child.pid)


def test_nothing_is_done_after_another_boot(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    leader, child = two
    group = led_by(leader.pid)
    boot_again(monkeypatch)
    assert_left_alone(group, leader.pid, child.pid)
    assert_left_alone(replace(group, started_ticks=None), leader.pid, child.pid)


def test_nothing_is_done_after_another_boot_to_a_group_that_lost_its_leader(
    two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = without_leader(two)
    boot_again(monkeypatch)
    assert_left_alone(group, two[1].pid)


def test_a_group_whose_member_was_there_before_the_leader_is_somebody_else_s(two: Two) -> None:
    group = without_leader(two)
    assert group.started_ticks is not None
    for later in (replace(group, started_ticks=group.started_ticks + 6000), later_by_the_clock(group, 60.0)):
        assert_left_alone(later, two[1].pid)


def test_a_group_in_another_session_is_somebody_else_s() -> None:
    with two_processes(session=False) as two:
        group = without_leader(two)
        for each in (group, later_by_the_clock(group, 0.0)):
            assert_left_alone(each, two[1].pid)


def later_by_the_clock(group: ProcessGroup, by_s: float) -> ProcessGroup:
    """As an older version wrote it down."""
    return ProcessGroup(group.pgid, group.started_at_s + by_s)


def test_what_an_older_version_wrote_down_is_told_by_the_clock_within_a_tolerance(two: Two) -> None:
    leader, child = two
    group = led_by(leader.pid)
    for by_s in (-0.5 * START_TOLERANCE_S, 0.5 * START_TOLERANCE_S):
        near = later_by_the_clock(group, by_s)
        assert leader_is_alive(near)
        assert {each.pid for each in members(near)} == {leader.pid, child.pid}
    for by_s in (-2 * START_TOLERANCE_S, 2 * START_TOLERANCE_S):
        assert_left_alone(later_by_the_clock(group, by_s), leader.pid, child.pid)
    assert end_group(later_by_the_clock(group, 0.0))


def test_where_nothing_tells_the_boot_the_clock_does(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    tell_no_boot(monkeypatch)
    leader, child = two
    group = led_by(leader.pid)
    assert (group.kernel, group.started_ticks) == (None, None)
    assert leader_is_alive(group)
    set_clock(monkeypatch, HOUR_S)
    assert_left_alone(group, leader.pid, child.pid)


def test_a_leader_that_has_ended_already_is_no_leader(two: Two) -> None:
    without_leader(two)
    group = led_by(two[0].pid)
    assert group.started_ticks is None
    assert not leader_is_alive(group)
