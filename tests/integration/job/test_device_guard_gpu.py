"""A real GPU that a real process of somebody else's is on: found, waited for, and free again afterwards.

Skipped where this Python has no torch that sees a GPU. Nothing here stands in for one.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest
import torch

from experiments.engines.port import DEVICE_BUSY, Infeasible
from experiments.job.device_guard import DeviceGuard, own_processes
from experiments.job.memory_return import IDLE_BYTES
from experiments.telemetry.occupants import device_use

DEVICE = "cuda:0"

HELD_BYTES = 3 * 2**30

HOLD = f"""
import sys, torch
held = torch.zeros(int(sys.argv[1]), dtype=torch.uint8, device="{DEVICE}")
torch.cuda.synchronize()
print("held", flush=True)
sys.stdin.read()
"""

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="this Python's torch sees no GPU"),
    pytest.mark.timeout(300),
]


@contextmanager
def holding(held_bytes: int = HELD_BYTES) -> Iterator[int]:
    """A process that holds memory of the GPU; it ends with the block."""
    command = [sys.executable, "-c", HOLD, str(held_bytes)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process.pid
        process.kill()


def guard(limit_over: bool) -> DeviceGuard:
    """A guard to which this process alone is the job's; time is over at once, or never for a minute."""
    if not limit_over:
        return DeviceGuard(DEVICE, own=lambda: frozenset({psutil.Process().pid}))
    seconds = iter(range(0, 10**9, 10**6))
    return DeviceGuard(
        DEVICE,
        own=lambda: frozenset({psutil.Process().pid}),
        wait=lambda s: None,
        clock=lambda: float(next(seconds)),
    )


def test_a_process_of_somebody_else_s_is_found_with_what_it_holds_and_waited_for() -> None:
    before = device_use(DEVICE)
    with holding() as pid:
        use = device_use(DEVICE)
        assert use.used_bytes - before.used_bytes >= HELD_BYTES
        with pytest.raises(Infeasible, match="is used by something else") as told:
            guard(limit_over=True).before_launches()
        assert told.value.kind == DEVICE_BUSY
        listed = {each.pid for each in use.computing or ()}
        if pid in listed:  # in a container the driver may count processes otherwise, or list none
            assert f"process {pid}" in told.value.cause
    guard(limit_over=False).before_launches()
    after = device_use(DEVICE)
    assert after.used_bytes - before.used_bytes < IDLE_BYTES


def test_what_a_launch_held_is_given_back_after_it_and_told() -> None:
    watching = DeviceGuard(DEVICE, own=own_processes)
    watching.before_launches()
    with holding():
        watching.up = 1
        watching.seen()
    watching.up = 0
    held = watching.returned()
    assert held is not None
    assert held.most_bytes - held.before_bytes >= HELD_BYTES
    assert held.after_bytes is not None
    assert held.after_bytes - held.before_bytes < IDLE_BYTES
    assert held.left is None


def test_the_job_s_own_processes_are_not_somebody_else_s() -> None:
    with holding():
        mine = DeviceGuard(DEVICE, own=own_processes)
        mine.up = 1
        mine.alone()


def test_a_gpu_that_answers_is_neither_lost_nor_unknown() -> None:
    whole = DeviceGuard(DEVICE)
    unwatched = whole.unwatched()
    assert unwatched is None or "lists no processes" in unwatched
    crash = Infeasible("crashed", "It died.")
    assert whole.explained(crash) is crash
