"""The processes that this one started."""

from __future__ import annotations

from collections.abc import Set

import psutil


def begun_beside(others: Set[int]) -> list[psutil.Process]:
    """The children of this process that are not among `others`, by their numbers, and all that they started.

    What one of the others starts is its own affair: a database server forks whenever it likes.
    """
    found: list[psutil.Process] = []
    for child in psutil.Process().children():
        if child.pid not in others:
            try:
                found += [child, *child.children(recursive=True)]
            except psutil.NoSuchProcess:
                continue
    return found


def runs(process: psutil.Process) -> bool:
    """Whether anything of a process still runs. One that has ended and that its parent has not waited for yet
    does not; one whose first thread has ended while another hangs in a driver does."""
    try:
        if not process.is_running():
            return False
        return process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1
    except psutil.NoSuchProcess:
        return False


def children() -> frozenset[int]:
    """The numbers of the processes that this one started itself."""
    return frozenset(child.pid for child in psutil.Process().children())
