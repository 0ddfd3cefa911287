"""The collector as its parent sees it: one process that samples, and a thread that keeps what it says."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from threading import Event, Thread
from typing import Protocol

from experiments.telemetry.collect import INTERVAL_S
from experiments.telemetry.history import KEPT_S, History
from experiments.telemetry.trace import Trace, replayed, sample_of

RESTART_AFTER_S = (1.0, 5.0, 30.0, 60.0)
"""Seconds until a collector that ended by itself is started again: the first time, the second, …"""

END_S = 2.0
"""Seconds that a collector is given to end, before it is ended by force."""

COMMAND = (sys.executable, "-m", "experiments.telemetry.collect")

_log = logging.getLogger(__name__)


class Source(Protocol):
    """Where samples come from: this machine, or a recording."""

    interval_s: float
    """Seconds between samples, as last asked for."""

    def start(self) -> None:
        """Begin."""

    def stop(self) -> None:
        """End, and wait until it has."""

    def pace(self, interval_s: float) -> None:
        """Sample so often from now on."""


class Collector:
    """Samples this machine in a process of its own into a history."""

    def __init__(self, history: History, command: Sequence[str] = COMMAND) -> None:
        self.interval_s = INTERVAL_S
        self._history = history
        self._command = tuple(command)
        self._ending = Event()
        self._process: subprocess.Popen[str] | None = None
        self._thread = Thread(target=self._run, name="device readings", daemon=True)

    @property
    def pid(self) -> int | None:
        """The process that samples now."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """End the process, and wait for it."""
        self._ending.set()
        process = self._process
        if process is not None:
            _end(process)
        self._thread.join(END_S)

    def pace(self, interval_s: float) -> None:
        """Sample so often from now on; a process that is started later learns it too."""
        if interval_s != self.interval_s:
            self.interval_s = interval_s
            self._say()

    def _run(self) -> None:
        for attempt in range(sys.maxsize):
            why = self._run_once()
            wait_s = RESTART_AFTER_S[min(attempt, len(RESTART_AFTER_S) - 1)]
            if self._ending.wait(wait_s):
                return
            _log.warning("The process that reads the devices %s; it is started again.", why)

    def _run_once(self) -> str:
        """Run the process to its end; what it did in the end, for a sentence."""
        try:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                start_new_session=True,  # Ctrl C is for its parent, with which it ends
            )
        except OSError as error:  # such as no room for one more process
            return f"could not be started ({error.strerror})"
        if self._ending.is_set():
            _end(self._process)
            assert self._process.stdout is not None
            self._process.stdout.close()  # nobody has begun to read it
            return "ended"
        if self.interval_s != INTERVAL_S:
            self._say()
        self._read(self._process)
        _end(self._process)
        return "ended"

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                try:
                    self._history.add(sample_of(line))
                except ValueError:
                    _log.warning("The process that reads the devices wrote what is no sample: %.80s", line)

    def _say(self) -> None:
        process = self._process
        if process is not None and process.stdin is not None:
            with suppress(OSError, ValueError):  # it has just ended
                process.stdin.write(f"{self.interval_s}\n")
                process.stdin.flush()


class Replay:
    """Plays a recording into a history as if it were read now, again and again.

    It has played for as long as a history keeps already, so that whoever looks sees curves at once.
    """

    def __init__(self, history: History, trace: Trace) -> None:
        self.interval_s = INTERVAL_S
        self._history = history
        self._trace = trace
        self._ending = Event()
        self._thread = Thread(target=self._run, name="device recording", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._ending.set()
        self._thread.join(END_S)

    def pace(self, interval_s: float) -> None:
        """A recording has its own pace."""

    def _run(self) -> None:
        for sample in replayed(self._trace, datetime.now(UTC) - timedelta(seconds=KEPT_S)):
            wait_s = (sample.at - datetime.now(UTC)).total_seconds()
            if self._ending.wait(max(0.0, wait_s)):
                return
            self._history.add(sample)


def _end(process: subprocess.Popen[str]) -> None:
    """Close its input, which ends it; by force where that does not."""
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.close()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
