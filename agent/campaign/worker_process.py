"""The worker that a campaign keeps running beside itself, as a process of its own."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from configs.errors import AutoinferError
from experiments.worker.bell import BELL_VARIABLE

MAX_QUICK_DEATHS = 3
"""Deaths in a row without a finished job after which the campaign gives up on its worker."""

STOP_S = 20.0
"""Seconds a worker has to end its job's processes after it was asked to stop."""

MOST_RINGS = 4096
"""Bytes taken from the bell at once; a job that ended is one of them."""


class WorkerProcess:
    """Starts `argv` and starts it again when it dies; ends it, and all it started, at the end.

    The worker rings when a job of it has ended (`experiments.worker.bell`), which `wait` hears.
    """

    def __init__(self, argv: Sequence[str], log: Path) -> None:
        self._argv = list(argv)
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._deaths = 0
        self._heard: int | None = None

    def __enter__(self) -> WorkerProcess:
        self.keep_alive()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int | None:
        """Process id, None when it does not run."""
        return None if self._process is None else self._process.pid

    def keep_alive(self) -> bool:
        """Start the worker if it does not run; true when it had died and was started again.

        Raises `AutoinferError` when it keeps dying, with the end of its log.
        """
        died = self._process is not None and self._process.poll() is not None
        if self._process is not None and not died:
            return False
        if died:
            self._deaths += 1
            if self._deaths > MAX_QUICK_DEATHS:
                raise AutoinferError(
                    f"The worker died {self._deaths} times in a row; its log ends with: {end_of(self._log)}",
                    f"Look into {self._log}, then continue with: autoinfer run",
                )
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self._start()
        return died

    def wait(self, timeout_s: float) -> None:
        """Block until a job of the worker has ended, the worker died, or the time is over."""
        if self._heard is None:
            time.sleep(timeout_s)
            return
        rung, _, _ = select.select([self._heard], [], [], timeout_s)
        if rung and not os.read(self._heard, MOST_RINGS):
            self._stop_listening()

    def did_well(self) -> None:
        """A job came back: earlier deaths no longer count."""
        self._deaths = 0

    def stop(self) -> None:
        """Ask the worker to end, then wait; kill it when it does not."""
        process, self._process = self._process, None
        self._stop_listening()
        if process is None:
            return
        process.terminate()
        try:
            process.wait(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _start(self) -> None:
        self._stop_listening()
        self._heard, rung = os.pipe()
        os.set_blocking(rung, False)  # a campaign that does not listen never holds its worker up
        try:
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    self._argv,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    env={**os.environ, BELL_VARIABLE: str(rung)},
                    pass_fds=(rung,),
                )
        finally:
            os.close(rung)

    def _stop_listening(self) -> None:
        if self._heard is not None:
            os.close(self._heard)
            self._heard = None


def end_of(log: Path) -> str:
    """The last lines of a process's log, on one line."""
    try:
        lines = log.read_text(errors="replace").strip().splitlines()
    except OSError:
        return "(no log)"
    return " / ".join(lines[-3:]) or "(empty log)"
