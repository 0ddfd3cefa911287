"""The processes of one run, started before it is known which run: they load what every job loads, and wait.

Loading takes as long as everything else between two experiments. Told a folder, they run the job in it; let
go, or left by an executor that died, they end.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from experiments.executors.guard import GUARD_VARIABLE

REAP_S = 30.0
"""How long to wait for the exit status of a group's leader after the group has ended."""

_SUPERVISOR = Path(__file__).with_name("supervise.py")
_READY = ".ready-"
"""How the log of processes that know of no run yet is named, before the id of who started them."""

_numbers = itertools.count(1)


@dataclass
class Started:
    """A process group that this process started: it must be reaped, its guard kept open, its end can be
    waited for by reading `ended`. `log` is where it speaks to, until a run has taken that."""

    supervisor: subprocess.Popen[bytes]
    guard: int
    ended: int
    log: Path

    def is_alive(self) -> bool:
        """Whether the group's leader runs; reaps it when it does not."""
        return self.supervisor.poll() is None

    @property
    def started_at_s(self) -> float:
        """When the leader started, seconds since the epoch."""
        return psutil.Process(self.supervisor.pid).create_time()

    def tell(self, folder: Path) -> None:
        """Let the processes run the job of `folder`; what became of a group that has died, its end tells."""
        assert self.supervisor.stdin is not None
        with suppress(BrokenPipeError):
            self.supervisor.stdin.write(os.fsencode(folder))
        with suppress(BrokenPipeError):
            self.supervisor.stdin.close()

    def end(self) -> None:
        """End the whole group by its guard, and forget it."""
        self.release()
        with suppress(subprocess.TimeoutExpired):
            self.supervisor.wait(REAP_S)
        self.log.unlink(missing_ok=True)

    def release(self) -> None:
        """Close what is held of a group that has ended."""
        with suppress(BrokenPipeError):
            if self.supervisor.stdin is not None:
                self.supervisor.stdin.close()
        for descriptor in (self.guard, self.ended):
            os.close(descriptor)


def start(command: Sequence[str], environment: Mapping[str, str], root: Path) -> Started:
    """Start processes that wait to be told a folder; their log lies in `root` until then."""
    _sweep(root)
    log = root / f"{_READY}{os.getpid()}-{next(_numbers)}.log"
    guard_read, guard_write = os.pipe()
    ended_read, ended_write = os.pipe()
    try:
        with log.open("wb") as output:
            supervisor = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_SUPERVISOR), *command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**environment, GUARD_VARIABLE: str(guard_read)},
                pass_fds=(guard_read, ended_write),
                start_new_session=True,
            )
    except BaseException:
        for descriptor in (guard_write, ended_read):
            os.close(descriptor)
        raise
    finally:
        for descriptor in (guard_read, ended_write):
            os.close(descriptor)
    return Started(supervisor, guard_write, ended_read, log)


def _sweep(root: Path) -> None:
    """Delete logs of processes whose executor was killed before it told them a folder."""
    for log in root.glob(f"{_READY}*.log"):
        owner = log.name.removeprefix(_READY).partition("-")[0]
        if owner.isdigit() and not psutil.pid_exists(int(owner)):
            log.unlink(missing_ok=True)
