"""The worker beside a campaign: it is kept alive, and it wakes the campaign when a job of it has ended."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.campaign.resources.worker_process import WorkerProcess, Workers
from experiments.worker.bell import BELL_VARIABLE, ring

LONG_S = 60.0
"""Far longer than anything here takes: who waits so long was not woken."""

RINGS = """
import signal, sys
from experiments.worker.bell import ring
for number in range(int(sys.argv[1])):
    ring()
signal.pause()
"""


def worker(folder: Path, code: str, *words: str) -> WorkerProcess:
    return WorkerProcess([sys.executable, "-c", code, *words], folder / "log" / "worker.log")


@pytest.fixture
def ringing(tmp_path: Path) -> Iterator[WorkerProcess]:
    with worker(tmp_path, RINGS, "1") as made:
        yield made


def waited_s(process: WorkerProcess, timeout_s: float = LONG_S) -> float:
    began = time.monotonic()
    process.wait(timeout_s)
    return time.monotonic() - began


def test_a_ring_wakes_at_once_and_only_once(ringing: WorkerProcess) -> None:
    assert waited_s(ringing) < LONG_S
    assert waited_s(ringing, 0.05) >= 0.05


def test_a_ring_before_the_wait_is_heard(tmp_path: Path) -> None:
    """As one that comes while the campaign learns: the next look is at once."""
    with worker(tmp_path, RINGS, "3") as made:
        assert waited_s(made) < LONG_S
        os.kill(made.pid or 0, signal.SIGKILL)
        assert waited_s(made) < LONG_S, "a death wakes too"
        while not made.keep_alive():  # until the system tells that it died
            made.wait(0.01)
        assert waited_s(made) < LONG_S, "the worker that was started again is heard"


def test_a_worker_that_is_stopped_is_waited_for_as_by_sleeping(ringing: WorkerProcess) -> None:
    ringing.stop()
    assert waited_s(ringing, 0.05) >= 0.05


def test_ringing_where_nobody_listens_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(BELL_VARIABLE, raising=False)
    ring()
    reading, writing = os.pipe()
    os.close(reading)
    monkeypatch.setenv(BELL_VARIABLE, str(writing))
    ring()
    os.close(writing)
    ring()


def test_a_bell_that_nobody_empties_does_not_hold_the_worker_up(tmp_path: Path) -> None:
    with worker(tmp_path, RINGS.replace("signal.pause()", "print('rung')"), str(200_000)) as made:
        assert made._process is not None
        assert made._process.wait(LONG_S) == 0
    assert (tmp_path / "log" / "worker.log").read_text() == "rung\n"


def test_the_ring_of_any_worker_wakes_and_a_device_that_is_out_has_none(tmp_path: Path) -> None:
    silent, ringing = worker(tmp_path, RINGS, "0"), worker(tmp_path, RINGS, "1")
    workers = Workers({"cuda:0": silent, "cuda:1": ringing})
    try:
        assert workers.keep_alive(("cuda:0", "cuda:1")) == ()
        began = time.monotonic()
        workers.wait(LONG_S)
        assert time.monotonic() - began < LONG_S
        assert workers.keep_alive(("cuda:0",)) == ()
        assert ringing.pid is None
        os.kill(silent.pid or 0, signal.SIGKILL)
        while not (again := workers.keep_alive(("cuda:0",))):  # until the system tells that it died
            workers.wait(0.01)
        assert again == ("cuda:0",)
    finally:
        workers.stop()
    assert silent.pid is None
