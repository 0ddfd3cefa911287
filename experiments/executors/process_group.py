"""Process groups of jobs on this host: who is in one, and ending it whole.

A group is named by the id and the start of its leader, because ids are given again: a leader with this id and
another start belongs to somebody else, and nothing is done to its group.

On Linux the start is told in clock ticks since the boot, exactly, together with which boot that was and the
namespace of process ids: what the kernel keeps and no setting of the clock moves. Elsewhere, and of a group
that an older version wrote down, it is told in seconds since the epoch.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from configs.errors import AutoinferError
from db.kernel import kernel_here

START_TOLERANCE_S = 2.0
"""Start times since the epoch are derived from the system's boot time, which moves when its clock is set: 2 s
is more than a clock that is kept right is moved by, and far less than an id takes to come round again."""

TERMINATE_S = 3.0
"""How long a group may take to end by itself after SIGTERM, before SIGKILL."""

KILL_S = 30.0
"""How long to wait after SIGKILL for processes that the kernel still holds, such as in a driver."""


LOOK_S = 0.01
"""How often to look whether a group has ended: processes that are not our children can't be waited for."""

_STARTED = 19
"""Where `starttime` stands in `/proc/PID/stat` after the name of the program: its 22nd field, the 20th after
that (Linux, `proc_pid_stat(5)`)."""


@dataclass(frozen=True)
class ProcessGroup:
    """A group of processes that is a session of its own: the id of its leader, and when that started.

    `started_at_s` is in seconds since the epoch, by the clock as it was then; `started_ticks` in clock ticks
    since the boot that `kernel` names, with the namespace of ids. The last two are None where nothing tells
    (not Linux), or told (an older version wrote it down).
    """

    pgid: int
    started_at_s: float
    kernel: str | None = None
    started_ticks: int | None = None


def led_by(pid: int) -> ProcessGroup:
    """Return the group that this process has just become the leader of; one that has ended already began
    about now."""
    kernel = _kernel()
    try:
        ticks = None if kernel is None else _started_ticks(pid)
        return ProcessGroup(pid, psutil.Process(pid).create_time(), kernel, ticks)
    except psutil.NoSuchProcess:
        return ProcessGroup(pid, time.time(), kernel)


def leader_is_alive(group: ProcessGroup) -> bool:
    """Return whether the leader of the group runs; a zombie does not."""
    try:
        leader = psutil.Process(group.pgid)
        return _is_of_here(group) and _is_same(leader, group) and leader.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def members(group: ProcessGroup) -> list[psutil.Process]:
    """Return the processes of the group that run; empty when the id belongs to another group by now."""
    if not _is_of_here(group):
        return []
    found = []
    for pid in psutil.pids():
        try:
            if os.getpgid(pid) != group.pgid:
                continue
            process = psutil.Process(pid)
            if not _may_be_in(process, group):
                return []
            if process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (ProcessLookupError, PermissionError, psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def end_group(group: ProcessGroup, terminate_s: float = TERMINATE_S) -> bool:
    """End every process of the group, and return when none is left; true when there was one.

    SIGTERM first, SIGKILL after `terminate_s`; stopped processes are killed too. Raises `AutoinferError` when
    processes are left although they were killed.
    """
    found = members(group)
    if not found:
        return False
    _signal_group(group.pgid, signal.SIGTERM)
    _signal_group(group.pgid, signal.SIGCONT)  # a stopped process takes SIGTERM only when it goes on
    if not _wait_for_end(group, terminate_s):
        _signal_group(group.pgid, signal.SIGKILL)
        if not _wait_for_end(group, KILL_S):
            pids = ", ".join(str(process.pid) for process in members(group))
            raise AutoinferError(
                f"Processes {pids} of a job don't end, although they were killed.",
                "They may hang in a driver: the device may need a restart.",
            )
    return True


def _wait_for_end(group: ProcessGroup, timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while members(group):
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_S)
    return True


def _signal_group(pgid: int, number: signal.Signals) -> None:
    try:
        os.killpg(pgid, number)
    except ProcessLookupError:
        return


def _kernel() -> str | None:
    """What names the boot and the namespace of ids, None where nothing tells."""
    return " ".join(kernel_here()) if all(kernel_here()) else None


def _is_of_here(group: ProcessGroup) -> bool:
    """Whether its id may mean something: not after another boot, nor in another container."""
    return group.kernel is None or group.kernel == _kernel()


def _is_same(leader: psutil.Process, group: ProcessGroup) -> bool:
    """Whether it is the group's leader; what may not be looked at is somebody else's."""
    try:
        if group.started_ticks is not None:
            return _started_ticks(leader.pid) == group.started_ticks
        return abs(leader.create_time() - group.started_at_s) <= START_TOLERANCE_S
    except psutil.AccessDenied:
        return False


def _may_be_in(process: psutil.Process, group: ProcessGroup) -> bool:
    """Whether a group with this id and process can be the one that is meant: its leader is that one, or gone,
    and everybody in it was started by that, in its session."""
    if process.pid == group.pgid:
        return _is_same(process, group)
    if group.started_ticks is not None:
        is_younger = _started_ticks(process.pid) >= group.started_ticks
    else:
        is_younger = process.create_time() >= group.started_at_s - START_TOLERANCE_S
    return is_younger and os.getsid(process.pid) == group.pgid


def _started_ticks(pid: int) -> int:
    """When a process started on Linux, in clock ticks since the boot; raises `psutil.NoSuchProcess`, and
    `psutil.AccessDenied`.

    Not by psutil: what that tells is since the epoch, put together from this and the boot time by the clock,
    which it rounds to seconds and, in some of its versions, keeps.
    """
    try:
        told = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        raise psutil.NoSuchProcess(pid) from None
    except PermissionError:
        raise psutil.AccessDenied(pid) from None
    return int(told.rpartition(b")")[2].split()[_STARTED])
