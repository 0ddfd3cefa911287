"""Process groups of jobs on this host: who is in one, and ending it whole.

A group is named by the id and the start time of its leader, because ids are given again: a leader with this
id and another start time belongs to somebody else, and nothing is done to its group.
"""

from __future__ import annotations

import os
import signal
import time

import psutil

from configs.errors import AutoinferError

START_TOLERANCE_S = 2.0
"""Start times are derived from the system's boot time, which moves when its clock is set: 2 s is far more
than that and far less than an id takes to come round again."""

TERMINATE_S = 3.0
"""How long a group may take to end by itself after SIGTERM, before SIGKILL."""

KILL_S = 30.0
"""How long to wait after SIGKILL for processes that the kernel still holds, such as in a driver."""


LOOK_S = 0.01
"""How often to look whether a group has ended: processes that are not our children can't be waited for."""


def leader_is_alive(pgid: int, started_at_s: float) -> bool:
    """Return whether the leader of the group runs; a zombie does not."""
    try:
        leader = psutil.Process(pgid)
        return _is_same(leader, started_at_s) and leader.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def members(pgid: int, started_at_s: float) -> list[psutil.Process]:
    """Return the processes of the group that run; empty when the id belongs to another group by now."""
    found = []
    for pid in psutil.pids():
        try:
            if os.getpgid(pid) != pgid:
                continue
            process = psutil.Process(pid)
            if pid == pgid and not _is_same(process, started_at_s):
                return []
            older = process.create_time() < started_at_s - START_TOLERANCE_S
            if not older and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (ProcessLookupError, PermissionError, psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def end_group(pgid: int, started_at_s: float, terminate_s: float = TERMINATE_S) -> bool:
    """End every process of the group, and return when none is left; true when there was one.

    SIGTERM first, SIGKILL after `terminate_s`; stopped processes are killed too. Raises `AutoinferError` when
    processes are left although they were killed.
    """
    found = members(pgid, started_at_s)
    if not found:
        return False
    _signal_group(pgid, signal.SIGTERM)
    _signal_group(pgid, signal.SIGCONT)  # a stopped process takes SIGTERM only when it goes on
    if not _wait_for_end(pgid, started_at_s, terminate_s):
        _signal_group(pgid, signal.SIGKILL)
        if not _wait_for_end(pgid, started_at_s, KILL_S):
            pids = ", ".join(str(process.pid) for process in members(pgid, started_at_s))
            raise AutoinferError(
                f"Processes {pids} of a job don't end, although they were killed.",
                "They may hang in a driver: the device may need a restart.",
            )
    return True


def _wait_for_end(pgid: int, started_at_s: float, timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while members(pgid, started_at_s):
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_S)
    return True


def _signal_group(pgid: int, number: signal.Signals) -> None:
    try:
        os.killpg(pgid, number)
    except ProcessLookupError:
        return


def _is_same(process: psutil.Process, started_at_s: float) -> bool:
    return abs(process.create_time() - started_at_s) <= START_TOLERANCE_S
