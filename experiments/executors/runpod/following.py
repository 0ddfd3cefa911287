"""What is known of pods and runs between two looks: RunPod's list, and the copy of what a job told."""

from __future__ import annotations

import fcntl
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.executors.port import RunState, Status
from experiments.executors.runpod.api import Pod, RunPodApi
from experiments.executors.runpod.board import Ended, Outcome
from experiments.job.journal import Journal
from experiments.job.place import RECORDS_NAME
from experiments.job.result import Failure, JobProgress, JobResult

AT_A_TIME = 200
"""Pods that are asked for anew every `Patience.list_s`; of more, all so much less often."""


@dataclass(frozen=True)
class Patience:
    """The times an executor lives by, seconds.

    `list_s`: how long RunPod's list of pods is taken for now: one request serves the polls of all runs.
    `appear_s`: how long a pod that was asked for may be missing in the list. `startup_s`: how long it may
    take until its job begins, the image being fetched meanwhile. `silent_s`: for how long a pod lives that
    told something, whatever the list says. `end_s`: what its end may take. `gone_s`: how long `cancel` waits
    for that, looking every `look_s`. `overdue_s`: how often it is looked for pods that should be gone.
    """

    list_s: float = 2.0
    appear_s: float = 120.0
    startup_s: float = 1800.0
    silent_s: float = 60.0
    end_s: float = 300.0
    gone_s: float = 120.0
    look_s: float = 1.0
    overdue_s: float = 300.0


class Pods:
    """RunPod's list of pods, asked for once for many questions."""

    def __init__(self, api: RunPodApi, patience: Patience) -> None:
        self._api = api
        self._list_s = patience.list_s
        self._asking = threading.Lock()
        self._told: list[Pod] = []
        self._by_name: dict[str, list[Pod]] = {}
        self._told_at_s = float("-inf")

    def all(self, *, fresh: bool = False) -> list[Pod]:
        """Every pod that exists; asked for anew with `fresh`."""
        with self._asking:
            self._ask(fresh)
            return self._told

    def named(self, name: str, *, fresh: bool = False) -> list[Pod]:
        """The pods of a name that exist."""
        with self._asking:
            self._ask(fresh)
            return self._by_name.get(name, [])

    def _ask(self, fresh: bool) -> None:
        lasts_s = self._list_s * max(1.0, len(self._told) / AT_A_TIME)
        if not fresh and time.monotonic() - self._told_at_s <= lasts_s:
            return
        self._told, self._by_name = self._api.pods(), {}
        for pod in self._told:
            self._by_name.setdefault(pod.name, []).append(pod)
        self._told_at_s = time.monotonic()


class Lock:
    """Holds the folder of a run, made where it is missing, against other threads and processes here."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> None:
        path = self._folder / "lock"
        try:
            self._file = path.open("w")
        except FileNotFoundError:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._file = path.open("w")
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        self._file.close()


class Copy:
    """The copy of what a run's job told, in a folder of this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._journal = Journal(folder / RECORDS_NAME)
        self._read_bytes = 0

    def sizes(self, names: Sequence[str]) -> dict[str, int]:
        """How long the copies of these files are, bytes."""
        return {name: path.stat().st_size if (path := self._folder / name).exists() else 0 for name in names}

    def add(self, pieces: Sequence[tuple[str, int, str]]) -> None:
        """Add pieces (file, place in bytes, text) in their order; a torn end is written over by its piece."""
        for name, at, data in pieces:
            path = self._folder / name
            with path.open("r+b" if path.exists() else "wb") as file:
                file.seek(at)
                file.write(data.encode())
                file.truncate()

    def journal(self) -> Journal:
        """What the records add up to."""
        size = self.sizes((RECORDS_NAME,))[RECORDS_NAME]
        if size != self._read_bytes:
            self._journal.update()
            self._read_bytes = size
        return self._journal

    def progress(self) -> JobProgress | None:
        """The last thing the job told."""
        return self.journal().fold.progress


_STATES = {
    Outcome.DONE: RunState.DONE,
    Outcome.OTHER_GPU: RunState.DONE,
    Outcome.FAILED: RunState.FAILED,
    Outcome.LOST: RunState.LOST,
    Outcome.CANCELLED: RunState.CANCELLED,
    Outcome.TIMED_OUT: RunState.TIMED_OUT,
}


def final_status(ended: Ended, copy: Copy) -> Status:
    """The status of a run that has ended so. A job that told its whole result has one, however its pod
    ended."""
    journal, state = copy.journal(), _STATES[ended.outcome]
    progress = journal.fold.progress
    if ended.outcome is Outcome.OTHER_GPU:
        return Status(state, progress, JobResult(failure=Failure("error", ended.sentence)))
    if state is RunState.LOST and journal.fold.ended:
        state = RunState.DONE
    if state is RunState.DONE:
        return Status(state, progress, journal.result())
    return Status(state, progress, failure=ended.sentence or None, failure_kind=ended.failure_kind)
