"""A flag that a handler of a signal raises while its own thread waits for it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

import pytest

from experiments.stop_flag import StopFlag
from tests.waiting import PATIENCE_S

WAITS, LOOKS = 3000, 300_000
EVERY_S = 0.0002


@pytest.fixture
def alarms() -> Iterator[list[StopFlag]]:
    """Every so often a handler sets the last of these flags, wherever the thread is."""
    flags: list[StopFlag] = []

    def handler(number: int, frame: FrameType | None) -> None:
        if flags:
            flags[-1].set()

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, EVERY_S, EVERY_S)
    yield flags
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_a_handler_may_set_it_at_any_moment_of_the_wait(alarms: list[StopFlag]) -> None:
    for _ in range(WAITS):
        alarms[:] = [StopFlag()]
        assert alarms[-1].wait(PATIENCE_S)


def test_a_handler_may_set_it_again_while_it_is_looked_at(alarms: list[StopFlag]) -> None:
    """An Event takes its lock for every look, and the handler waits for it without end."""
    alarms[:] = [StopFlag()]
    for _ in range(LOOKS):
        alarms[0].wait(0.0)
    assert alarms[0].is_set()


def test_who_waits_is_woken_by_another_thread() -> None:
    flag, began = StopFlag(), time.monotonic()
    threading.Timer(0.05, flag.set).start()
    assert flag.wait(PATIENCE_S)
    assert time.monotonic() - began < PATIENCE_S / 2
    assert flag.is_set()


def test_a_wait_ends_with_its_time_and_what_is_set_is_not_waited_for() -> None:
    flag = StopFlag()
    assert not flag.wait(0.0)
    assert not flag.wait(0.001)
    assert not flag.is_set()
    for _ in range(100_000):  # more than the pipe holds
        flag.set()
    assert flag.wait()


def test_its_pipe_goes_with_it() -> None:
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else None
    for _ in range(2000):
        StopFlag().set()
    if before is None:
        pytest.skip("how many files are open is not told here")
    assert len(os.listdir("/proc/self/fd")) <= before + 2
