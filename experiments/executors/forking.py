"""Runs forked from a process that has loaded what every job loads: loading takes as long as everything else
between two experiments.

The executor starts that process once, hands it a socket as its standard input, and sends it a folder for each
run, with three open files: the log, the reading end of the guard pipe (`guard`), and the writing end of a
pipe that closes with the run. The group's leader answers with its id, and does nothing then but wait for the
job, record how it ended, and end the whole group with it.

The loading process has one thread and ends with its executor, when the socket closes. A run outlives it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from experiments.executors import guard

EXIT_NAME = "exit.json"

FILES = 3
"""Open files that come with each folder: log, guard, end."""

MESSAGE_BYTES = 16 * 1024
"""More than the longest path of a system."""

Run = Callable[[Path], int]
"""Runs the job of a folder and returns its exit code."""


def serve(run: Run) -> None:
    """Fork a group for each folder that comes by the standard input, until the executor is gone."""
    channel = socket.socket(fileno=os.dup(0))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for leaders: the system reaps them
    while True:
        told, files, _, _ = socket.recv_fds(channel, MESSAGE_BYTES, FILES)
        if not told:
            return
        for each in files:
            os.set_inheritable(each, False)
        if os.fork() == 0:
            _lead(channel, Path(os.fsdecode(told)), files, run)
        for each in files:
            os.close(each)


def _lead(channel: socket.socket, folder: Path, files: list[int], run: Run) -> None:
    """Be the leader of a new group: start the job, wait for it, record its end, end the group."""
    log, watched, _ = files
    os.setsid()
    channel.send(str(os.getpid()).encode())  # not before there is a group that can be ended by this id
    channel.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.environ[guard.GUARD_VARIABLE] = str(watched)
    job = os.fork()
    if job == 0:
        _work(folder, files[-1], run)
    for number in (signal.SIGTERM, signal.SIGINT):  # the job ends by them; its leader stays to record it
        signal.signal(number, lambda *_: None)
    guard.watch(watched)
    _, status = os.waitpid(job, 0)
    with suppress(
        OSError
    ):  # on a full disk nobody learns the code; what remains of the group ends all the same
        _record(folder, os.waitstatus_to_exitcode(status))
    os.killpg(0, signal.SIGKILL)


def _work(folder: Path, ended: int, run: Run) -> None:
    """Be the job's process; ends it."""
    os.close(ended)
    code = 1
    try:
        guard.watch_from_environment()
        code = run(folder)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


def _record(folder: Path, code: int) -> None:
    temporary = folder / (EXIT_NAME + ".tmp")
    with temporary.open("w") as file:
        json.dump({"code": code, "ended_at_s": time.time()}, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(folder / EXIT_NAME)
