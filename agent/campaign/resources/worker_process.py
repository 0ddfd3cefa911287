"""The workers that a campaign keeps running beside itself, one a device, each a process of its own."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

from configs.errors import AutoinferError
from experiments.disk import disk_in_words
from experiments.worker.bell import BELL_VARIABLE

MAX_QUICK_DEATHS = 3
"""Deaths in a row without a finished job after which the campaign gives up on its worker."""

STOP_S = 20.0
"""Seconds a worker has to end its job's processes after it was asked to stop."""

REMOTE_STOP_S = 180.0
"""The same for one that ends runs at a provider, who is asked for each and may be slow to answer; killed
before that, it would leave something paid running."""

MOST_RINGS = 4096
"""Bytes taken from the bell at once; a job that ended is one of them."""


class WorkerProcess:
    """Starts `argv` and starts it again when it dies; ends it, and all it started, at the end.

    The worker rings when a job of it has ended (`experiments.worker.bell`), which `wait` hears. It, and all
    that it starts, may use `processors` alone where they are given. `stop_s` is how long it has to end.
    """

    def __init__(
        self, argv: Sequence[str], log: Path, processors: Collection[int] = (), stop_s: float = STOP_S
    ) -> None:
        self._argv = list(argv)
        self._processors = frozenset(processors)
        self._log = log
        self._stop_s = stop_s
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

        Raises `AutoinferError` when it keeps dying, with the end of its log, and as `disk_in_words` where the
        log can't be written.
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
        with disk_in_words(self._log.parent, "logs"):
            self._log.parent.mkdir(parents=True, exist_ok=True)
            self._start()
        return died

    def wait(self, timeout_s: float) -> None:
        """Block until a job of the worker has ended, the worker died, or the time is over."""
        wait_for_any((self,), timeout_s)

    @property
    def heard(self) -> int | None:
        """The end of the bell's pipe to listen at; None while the worker does not run."""
        return self._heard

    def take_rings(self) -> None:
        """Take what has been rung, when there is something to read; a worker that is gone rings no more."""
        if self._heard is not None and not os.read(self._heard, MOST_RINGS):
            self._stop_listening()

    def did_well(self) -> None:
        """A job came back: earlier deaths no longer count."""
        self._deaths = 0

    def ask_to_stop(self) -> None:
        """Ask the worker to end, and wait for nothing."""
        if self._process is not None:
            self._process.terminate()

    def stop(self) -> None:
        """Ask the worker to end, then wait; kill it when it does not."""
        process, self._process = self._process, None
        self._stop_listening()
        if process is None:
            return
        process.terminate()
        try:
            process.wait(timeout=self._stop_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _start(self) -> None:
        self._stop_listening()
        self._heard, rung = os.pipe()
        os.set_blocking(rung, False)  # a campaign that does not listen never holds its worker up
        try:
            with self._log.open("ab") as log, _on(self._processors):
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


@contextmanager
def _on(processors: Collection[int]) -> Iterator[None]:
    """Puts this thread on processors, on all as before where none are given or the system has them no more:
    what is started meanwhile begins there, and so does all that it starts."""
    if not processors:
        yield
        return
    before = os.sched_getaffinity(0)
    with suppress(OSError):
        os.sched_setaffinity(0, processors)
    try:
        yield
    finally:
        with suppress(OSError):
            os.sched_setaffinity(0, before)


class Workers:
    """A worker process for each device of a campaign."""

    def __init__(self, processes: Mapping[str, WorkerProcess]) -> None:
        self._processes = dict(processes)

    def keep_alive(self, devices: Collection[str]) -> tuple[str, ...]:
        """Run the workers of these devices and end those of others; gives the devices whose worker had died
        and was started again.

        Raises `AutoinferError` as `WorkerProcess.keep_alive`.
        """
        for device, process in self._processes.items():
            if device not in devices:
                process.stop()
        return tuple(
            device
            for device, process in self._processes.items()
            if device in devices and process.keep_alive()
        )

    def wait(self, timeout_s: float) -> None:
        """Block until a job of any of them has ended, one died, or the time is over."""
        wait_for_any(tuple(self._processes.values()), timeout_s)

    def did_well(self, device: str) -> None:
        """A job came back from this device's worker: its earlier deaths no longer count."""
        if device in self._processes:
            self._processes[device].did_well()

    def stop(self) -> None:
        """Ask all to end, then wait; kill those that do not."""
        for process in self._processes.values():
            process.ask_to_stop()
        for process in self._processes.values():
            process.stop()


def wait_for_any(processes: Collection[WorkerProcess], timeout_s: float) -> None:
    """Block until one of the workers rings or dies, or the time is over."""
    listening = {each.heard: each for each in processes if each.heard is not None}
    if not listening:
        time.sleep(timeout_s)
        return
    rung, _, _ = select.select(list(listening), [], [], timeout_s)
    for each in rung:
        listening[each].take_rings()


def end_of(log: Path) -> str:
    """The last lines of a process's log, on one line."""
    try:
        lines = log.read_text(errors="replace").strip().splitlines()
    except OSError:
        return "(no log)"
    return " / ".join(lines[-3:]) or "(empty log)"
