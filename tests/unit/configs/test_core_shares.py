"""Cores for devices that are measured at the same time: whole ones, as many for each, none twice."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.campaign.resources.worker_process import WorkerProcess
from configs.core_shares import LEAST_CORES, core_shares, siblings_of, usable

TWO = ("cuda:0", "cuda:1")


def two_threads(cpu: int) -> frozenset[int]:
    """A machine of 16 cores whose second threads are counted after all first ones."""
    return frozenset({cpu % 16, cpu % 16 + 16})


def test_the_two_threads_of_a_core_go_to_the_same_device() -> None:
    shares = core_shares(TWO, range(32), two_threads)
    assert shares["cuda:0"] == {*range(8), *range(16, 24)}
    assert shares["cuda:1"] == {*range(8, 16), *range(24, 32)}


def test_a_container_that_is_allowed_less_time_gets_fewer_processors() -> None:
    shares = core_shares(TWO, range(32), two_threads, at_most=20)
    assert [len(share) for share in shares.values()] == [10, 10]
    assert core_shares(TWO, range(32), two_threads, at_most=8) == {}


def test_one_device_and_few_cores_are_not_shared_out() -> None:
    assert core_shares(("cuda:0",), range(32), two_threads) == {}
    assert core_shares(TWO, range(2 * LEAST_CORES - 1), lambda cpu: frozenset({cpu})) == {}


@given(st.sets(st.integers(0, 63), min_size=1), st.integers(1, 8), st.sampled_from([1, 2, 4]))
def test_shares_are_disjoint_usable_equal_in_cores_and_split_no_core(
    processors: set[int], count: int, threads: int
) -> None:
    def core(cpu: int) -> frozenset[int]:
        return frozenset(range(cpu - cpu % threads, cpu - cpu % threads + threads))

    devices = [f"cuda:{number}" for number in range(count)]
    shares = core_shares(devices, processors, core)
    given = [cpu for share in shares.values() for cpu in share]
    assert len(given) == len(set(given))
    assert set(given) <= processors
    for share in shares.values():
        assert all(core(cpu) & processors <= share for cpu in share)
    assert len({len({core(cpu) for cpu in share}) for share in shares.values()}) <= 1
    assert not shares or set(shares) == set(devices)


def test_this_machine_tells_of_its_cores() -> None:
    assert all(cpu in siblings_of(cpu) for cpu in usable())


def test_a_worker_and_what_it_starts_keep_to_its_processors_however_soon_it_starts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = usable()
    first, log = min(before), tmp_path / "log"
    code = (
        "import os, signal, subprocess, sys, time\n"
        "os.waitpid(os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, '-c', "
        "'import os; print(sorted(os.sched_getaffinity(0)), flush=True)']), 0)\n"
        "os.write(int(os.environ['_AUTOINFER_BELL_FD']), b'!')\n"
        "signal.pause()\n"
    )
    begin = subprocess.Popen

    def held_up(*words: Any, **named: Any) -> subprocess.Popen[bytes]:
        """The campaign's own process gets no processor until the worker has started something."""
        process = begin(*words, **named)
        for _ in range(600):
            if log.read_text():
                break
            time.sleep(0.1)
        return process

    monkeypatch.setattr(subprocess, "Popen", held_up)
    with WorkerProcess([sys.executable, "-c", code], log, (first,)) as worker:
        worker.wait(60.0)
        assert log.read_text().strip() == str([first])
        os.kill(worker.pid or 0, signal.SIGKILL)
    assert usable() == before, "this process may use all as before"


def test_a_worker_runs_where_the_system_has_its_processors_no_more(tmp_path: Path) -> None:
    code = "import os; os.write(int(os.environ['_AUTOINFER_BELL_FD']), b'!'); import signal; signal.pause()"
    with WorkerProcess([sys.executable, "-c", code], tmp_path / "log", (10_000,)) as worker:
        worker.wait(60.0)
        assert worker.pid is not None
        assert os.sched_getaffinity(worker.pid) == usable()
