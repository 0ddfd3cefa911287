"""The worker that a campaign keeps running beside itself, as a process of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from configs.errors import AutoinferError

MAX_QUICK_DEATHS = 3
"""Deaths in a row without a finished job after which the campaign gives up on its worker."""

STOP_S = 20.0
"""Seconds a worker has to end its job's processes after it was asked to stop."""


class WorkerProcess:
    """Starts `argv` and starts it again when it dies; ends it, and all it started, at the end.

    The worker watches its standard input and ends when that closes, so it does not outlive the campaign,
    not even one that was killed.
    """

    def __init__(self, argv: Sequence[str], log: Path) -> None:
        self._argv = list(argv)
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._deaths = 0

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
                    f"The worker died {self._deaths} times in a row; its log ends with: {self._tail()}",
                    f"Look into {self._log}, then continue with: autoinfer run",
                )
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._argv, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
            )
        return died

    def did_well(self) -> None:
        """A job came back: earlier deaths no longer count."""
        self._deaths = 0

    def stop(self) -> None:
        """Ask the worker to end, then wait; kill it when it does not."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        process.terminate()
        try:
            process.wait(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _tail(self) -> str:
        try:
            lines = self._log.read_text(errors="replace").strip().splitlines()
        except OSError:
            return "(no log)"
        return " / ".join(lines[-3:]) or "(empty log)"
