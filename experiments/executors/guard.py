"""The guard pipe: how a job's processes learn that the executor that started them has died.

The executor holds the writing end and writes nothing; when it dies, by SIGKILL too, the system closes that
end and every reader sees the end of the file. The number of the reading end stands in `_AUTOINFER_GUARD_FD`;
whoever starts a process of a job passes it on (`pass_fds=guard.descriptors()`), and the process calls
`watch_from_environment`.

Only the standard library is imported here, so that watching begins before anything slow.
"""

from __future__ import annotations

import os
import signal
import threading

GUARD_VARIABLE = "_AUTOINFER_GUARD_FD"
"""Environment variable that holds the number of the pipe's reading end; set in processes of a job alone."""


def descriptors() -> tuple[int, ...]:
    """Return what a process of a job must hand to the processes it starts; empty outside a job."""
    number = os.environ.get(GUARD_VARIABLE)
    return (int(number),) if number else ()


def watch_from_environment() -> None:
    """Kill this job's whole process group as soon as its executor is dead; does nothing outside a job."""
    for descriptor in descriptors():
        watch(descriptor)


def watch(descriptor: int) -> None:
    """Wait in a thread for the end of the pipe, then kill this process's group, itself included."""
    threading.Thread(target=_end_with, args=(descriptor,), name="guard", daemon=True).start()


def _end_with(descriptor: int) -> None:
    while os.read(descriptor, 1):
        pass
    os.killpg(os.getpgrp(), signal.SIGKILL)
