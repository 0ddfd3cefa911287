"""The leader of a job's process group: starts the job, waits for it, records how it ended, ends the whole
group.

Run as a script by the local executor, with the standard library alone, so that it starts at once and holds
nothing but this loop: `python -I -S supervise.py COMMAND…`. The job's folder comes by standard input and is
handed on to the command, which may have loaded much by then. It ends in one way only: by killing its own
group.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

GUARD_VARIABLE = "_AUTOINFER_GUARD_FD"
"""As in `guard`, which a script that runs without the package can't import."""

EXIT_NAME = "exit.json"


def main(command: list[str]) -> None:
    """Run `command` in the folder that is told to its end, write `exit.json` there, and kill the group."""
    guard = int(os.environ[GUARD_VARIABLE])
    threading.Thread(target=_end_with, args=(guard,), daemon=True).start()
    # A handler, unlike SIG_IGN, is not inherited: the job ends by SIGTERM while this process stays to
    # record it.
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    signal.signal(signal.SIGINT, lambda number, frame: None)
    job = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=(guard,))
    told = sys.stdin.buffer.read()
    if told:
        job.communicate(told)
        _record(Path(os.fsdecode(told)), job.returncode)
    os.killpg(0, signal.SIGKILL)


def _record(folder: Path, code: int) -> None:
    temporary = folder / (EXIT_NAME + ".tmp")
    with temporary.open("w") as file:
        json.dump({"code": code, "ended_at_s": time.time()}, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(folder / EXIT_NAME)


def _end_with(descriptor: int) -> None:
    while os.read(descriptor, 1):
        pass
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1:])
