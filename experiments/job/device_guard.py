"""Sees to it that a GPU is the job's alone while it measures there, and tells a lost GPU from a bad launch.

- Before launches are opened and none of the job's is up, memory that anything else holds must be gone: what
  a predecessor held comes back a while after its process ended, and that is waited for, at most
  `MEMORY_RETURN_LIMIT_S`. What is left then belongs to somebody else: `device_busy`, with names and figures.
- Before and after a block, a process that computes there and is not the job's spoils the block, so that
  nothing is silently measured beside it. Its end is waited for as long, and the block measured again
  (`open_launch.OpenLaunch.time_block`); who stays ends the job as above. One that is gone by the time it is
  asked whose it was may have been a child of the job that ended: it counts where a second look finds
  somebody too.
- Where a launch dies, or a stage that makes a checkpoint, and the driver says that the device is lost, or the
  kernel logged a fault of the device since the job began, the device is to blame: `device_lost`.
- When the last launch has ended, what launches held is waited for, at most `RETURN_LIMIT_S`. What is left
  then is told and ends nothing: what was measured was measured before.

Neither kind says anything of a configuration. A CPU is not watched.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import psutil

from configs.quantities import format_duration
from experiments.engines.port import DEVICE_BUSY, DEVICE_LOST, Infeasible
from experiments.job.memory_return import IDLE_BYTES, SeenMemory
from experiments.job.result import HeldMemory
from experiments.job.unnamed_memory import allowed_bytes, told_of_unnamed
from experiments.telemetry.free_memory import MemoryUnknown
from experiments.telemetry.kernel_log import xids_of
from experiments.telemetry.occupants import DeviceGone, DeviceUse, Occupant, device_use

MEMORY_RETURN_LIMIT_S = 60.0
"""How long memory of a process that ended may take to come back, seconds: the driver frees it within a few,
and a vLLM with graphs on an H200 within ten."""

RETURN_LIMIT_S = 20.0
"""How long a job waits at its end for its launches' memory, seconds: twice the longest seen (above). Whoever
comes next waits longer, and what was measured is not to wait for a GPU that hangs."""

LOOK_EVERY_S = 0.5
"""Between two looks, seconds."""

_MAY_BE_THE_DEVICE = frozenset({"crashed", "timed_out"})


def own_processes() -> frozenset[int]:
    """This process and all that it started."""
    here = psutil.Process()
    return frozenset({here.pid, *(child.pid for child in here.children(recursive=True))})


def end_process(pid: int) -> None:
    """Kill a process that is there."""
    with suppress(psutil.Error):
        psutil.Process(pid).kill()


class DeviceGuard:
    """Watches one job's device; `device` is as in a spec (`cpu`, `cuda:0`).

    `up` counts the job's launches that hold memory, kept by who opens and closes them. `look` and `xids`
    ask the driver and the kernel's log, `own` tells the job's processes, `end` kills one of them,
    `exists` tells whether a process is there, `wait` and `clock` take and give seconds; all are passed in
    for tests. `unnamed_bytes` may be held by nobody who is named (None: as the user allows). Of several
    threads at once only `seen` may be called.
    """

    def __init__(
        self,
        device: str,
        *,
        look: Callable[[str], DeviceUse] = device_use,
        xids: Callable[[str], tuple[int, ...]] = xids_of,
        own: Callable[[], frozenset[int]] = own_processes,
        end: Callable[[int], None] = end_process,
        exists: Callable[[int], bool] = psutil.pid_exists,
        wait: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        unnamed_bytes: int | None = None,
    ) -> None:
        self.up = 0
        self.device = device
        self._watched = device.partition(":")[0] == "cuda"
        self._look, self._xids, self._own, self._wait, self._clock = look, xids, own, wait, clock
        self._end, self._exists, self._seen = end, exists, SeenMemory()
        self._seeing = threading.Lock()
        self._unnamed_bytes = allowed_bytes() if unnamed_bytes is None else unnamed_bytes
        self._strangers: frozenset[int] = frozenset()
        self._came = ""
        self._xids_before = xids(device) if self._watched else ()

    def unwatched(self) -> str | None:
        """Why the device can't be watched, in a sentence; None where it can, and for a CPU.

        Raises `Infeasible` of kind `device_lost`.
        """
        if not self._watched:
            return None
        try:
            use = self._used()
        except MemoryUnknown as reason:
            return f"Whether others use {self.device} can't be told: {reason}"
        if use.computing is None:
            return (
                f"The driver lists no processes of {self.device}, so that others beside a launch can't be "
                "told; before launches its used memory is looked at."
            )
        return None

    def before_launches(self) -> None:
        """Wait until only the job's own is on the device.

        Raises `Infeasible`: kind `device_busy` where somebody is left after the limit, `device_lost`.
        """
        self._await(f", {format_duration(MEMORY_RETURN_LIMIT_S)} after the job could have begun")

    def alone_again(self, check: Callable[[], None]) -> str:
        """Wait until those are gone whom `alone` found; says who they were. Raises as `before_launches`, and
        what `check` raises, which is called meanwhile."""
        self._await(f", {format_duration(MEMORY_RETURN_LIMIT_S)} after it came while the job measured", check)
        return self._came

    def _await(self, when: str, check: Callable[[], None] = lambda: None) -> None:
        others = self._others()
        until = self._clock() + MEMORY_RETURN_LIMIT_S
        while others is not None and self._clock() < until:
            check()
            self._wait(LOOK_EVERY_S)
            others = self._others()
        if others is not None:
            raise self._busy(others, when)

    def alone(self) -> None:
        """Raise `Infeasible` of kind `device_busy` where somebody else computes there, by a second look where
        the first one's processes are gone."""
        others = self._others()
        if others is not None and not any(self._exists(pid) for pid in self._strangers):
            self._wait(LOOK_EVERY_S)
            others = self._others()
        if others is not None:
            self._came = others
            raise self._busy(others, "")

    def seen(self) -> None:
        """Look at what is used, for `returned` alone: nothing comes of who else is there."""
        with self._seeing, suppress(Infeasible):
            self._others()

    def returned(self, limit_s: float = RETURN_LIMIT_S) -> HeldMemory | None:
        """Wait until what the job's launches held is given back, now that none is up, at most `limit_s`.

        A process of the job's that still holds memory is killed. None where nothing was seen of the device
        before the first launch, and for a CPU.
        """
        before_bytes = self._seen.before_bytes
        if before_bytes is None:
            return None
        began_s = self._clock()
        while True:
            waited_s = self._clock() - began_s
            try:
                use = self._used()
            except (Infeasible, MemoryUnknown):
                return HeldMemory(before_bytes, self._seen.most_bytes, None, waited_s)
            own = self._own() - {os.getpid()}
            left = self._seen.not_returned(use, own)
            if left is None or waited_s >= limit_s:
                break
            for pid in own.intersection(each.pid for each in left.holders):
                self._end(pid)
            self._wait(LOOK_EVERY_S)
        told = None if left is None else left.told(self.device, waited_s)
        after_bytes = use.used_bytes - use.drawn_bytes
        return HeldMemory(before_bytes, self._seen.most_bytes, after_bytes, waited_s, told)

    def explained(self, reason: Infeasible) -> Infeasible:
        """The failure of a launch, or of a stage that makes a checkpoint; where the device is why, that."""
        if not self._watched or reason.kind not in _MAY_BE_THE_DEVICE:
            return reason
        try:
            self._used()
        except Infeasible as lost:
            return Infeasible(DEVICE_LOST, f"{lost.cause} ({reason.cause.rstrip('.')}.)")
        except MemoryUnknown:
            return reason
        new = self._xids(self.device)[len(self._xids_before) :]
        if not new:
            return reason
        logged = ", ".join(map(str, sorted(set(new))))
        return Infeasible(
            DEVICE_LOST,
            f"The kernel logged a fault of {self.device} itself (Xid {logged}) while the job ran; see "
            f"`dmesg`, and reset the GPU or restart the machine before it is used again. ({reason.cause})",
        )

    def _others(self) -> str | None:
        """Who else is there, in words; None where nobody is, or nothing can be known."""
        if not self._watched:
            return None
        before = self._own()
        try:
            use = self._used()
        except MemoryUnknown:
            return None  # told once by `unwatched`
        own = before | self._own()
        self._strangers = frozenset(each.pid for each in use.computing or () if each.pid not in own)
        others = others_of(use, own, self.up, self._unnamed_bytes)
        if others is None:
            self._seen.add(use, own, self.up)
        return others

    def _used(self) -> DeviceUse:
        try:
            return self._look(self.device)
        except DeviceGone as gone:
            raise Infeasible(
                DEVICE_LOST,
                f"{self.device} is lost (the driver says: {gone}); end what uses it, reset it with "
                "`nvidia-smi --gpu-reset` or restart the machine, then resume the campaign.",
            ) from None

    def _busy(self, others: str, when: str) -> Infeasible:
        return Infeasible(
            DEVICE_BUSY,
            f"{self.device} is used by something else{when}: {others}; nothing is measured beside it. "
            "Free the GPU; the experiment is run again.",
        )


def others_of(use: DeviceUse, own: frozenset[int], up: int, unnamed_bytes: int = IDLE_BYTES) -> str | None:
    """Who else is on a device, in words, when `up` launches of the processes `own` are; None for nobody.
    `unnamed_bytes` may be held by nobody who is named.

    Where launches are up and the driver names none of their processes, it counts processes otherwise than
    this machine does (a container), and nobody can be told from them.
    """
    listed = use.computing or ()
    others = [each for each in listed if each.pid not in own]
    if up and len(others) == len(listed):
        return None
    if others:
        return "; ".join(map(str, others))
    if not up:
        unlisted = use.used_bytes - use.drawn_bytes - _held(listed)
        if unlisted > unnamed_bytes:
            return told_of_unnamed(unlisted, unnamed_bytes)
    return None


def _held(listed: tuple[Occupant, ...]) -> int:
    return sum(each.used_bytes or 0 for each in listed)
