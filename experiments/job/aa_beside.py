"""A command that runs beside a measurement and is ended after it, with everything it started.

It runs in the job's process group, so that it dies with the job. Whatever left that group is found by a
variable in its environment, which processes inherit; so is what a killed job of the same series left behind.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

import psutil

from configs.errors import AutoinferError
from configs.quantities import format_duration
from experiments.own_processes import runs

MARK_VARIABLE = "_AUTOINFER_BESIDE"
"""Environment variable by which the processes of the command are known."""

LOG_NAME = "beside.log"
"""What the command says, in the job's folder."""

TERMINATE_S = 5.0
"""How long the command may take to end by itself after SIGTERM: a server closes its connections first."""

KILL_S = 10.0
"""How long to wait after SIGKILL."""

_LOOK_S = 0.02


def series_mark(jobs: Path, series_id: int) -> str:
    """What tells the processes of a series's command from all others, in every pair whose job lies below
    `jobs`."""
    return f"{jobs.resolve()}:{series_id}"


class Beside:
    """Runs `command` while the block runs; `mark` is the same for all pairs of a series.

    Entering raises `AutoinferError` when the command can't be started, leaving when it can't be ended.
    """

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        mark: str,
        *,
        kill: Callable[[psutil.Process, signal.Signals], None] | None = None,
        kill_s: float = KILL_S,
    ) -> None:
        self._command = list(command)
        self._log = folder / LOG_NAME
        self._mark = mark
        self._kill = kill or (lambda process, number: process.send_signal(number))
        self._kill_s = kill_s
        self._process: subprocess.Popen[bytes] | None = None
        self._started_s = 0.0

    def __enter__(self) -> Beside:
        self.end()
        environment = {**os.environ, MARK_VARIABLE: self._mark}
        try:
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
                )
        except OSError as error:
            raise AutoinferError(
                f"The command {self.shown} can't be started: {error.strerror}.",
                "Give --beside a command that runs in a terminal here.",
            ) from error
        self._started_s = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        if self._process is not None:
            self._process.wait()

    @property
    def shown(self) -> str:
        """The command as a user would write it."""
        return repr(" ".join(self._command))

    def ended(self) -> str | None:
        """How the command ended by itself, in a sentence; None while it runs."""
        code = None if self._process is None else self._process.poll()
        if code is None:
            return None
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        after_s = time.monotonic() - self._started_s
        within = format_duration(after_s)
        text = f"The command {self.shown} {how} within {within}, before the pair was measured"
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return f"{text}; it said last: {lines[-1]}" if lines else f"{text}."

    def end(self) -> None:
        """End every process of the command, of earlier pairs too: SIGTERM, and SIGKILL for what is left."""
        for number, patience_s in ((signal.SIGTERM, TERMINATE_S), (signal.SIGKILL, self._kill_s)):
            for process in self._marked():
                try:
                    self._kill(process, number)
                except psutil.NoSuchProcess:
                    continue
                except psutil.AccessDenied:
                    break  # told below, with those that are left
            deadline = time.monotonic() + patience_s
            while left := self._marked():
                if time.monotonic() > deadline:
                    break
                time.sleep(_LOOK_S)
            if not left:
                return
        pids = ", ".join(str(process.pid) for process in self._marked())
        raise AutoinferError(
            f"The command {self.shown} can't be ended: processes {pids} go on although they were killed.",
            "End them by hand; what is measured beside them would not be what was asked for.",
        )

    def _marked(self) -> list[psutil.Process]:
        """The processes of the command that run: its own, what that started, and whatever bears the mark."""
        found: dict[int, psutil.Process] = {}
        if self._process is not None and self._process.poll() is None:
            try:
                own = psutil.Process(self._process.pid)
                found = {each.pid: each for each in (own, *own.children(recursive=True))}
            except psutil.NoSuchProcess:
                pass
        for process in psutil.process_iter():
            if _environment_of(process).get(MARK_VARIABLE) == self._mark:
                found[process.pid] = process
        return [process for process in found.values() if runs(process)]


def _environment_of(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ()
    except (psutil.NoSuchProcess, psutil.AccessDenied):  # a zombie is no such process either
        return {}
