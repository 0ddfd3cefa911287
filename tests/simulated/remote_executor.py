"""An executor of the tests that stands for a provider: its state is in files of its own, below `cloud/`.

    <cloud>/<key>/run.json        what was submitted, and how often a body began work
    <cloud>/<key>/progress.json   what it tells meanwhile
    <cloud>/<key>/ended.json      how it ended: `done`, `failed`, `lost`, `cancelled`
    <cloud>/records.jsonl         what every finished run gives as its result
    <cloud>/submits.log           a line for each submit that reached the provider

Nothing computes: a test says when a run ends. Runs outlive every process. It is no GPU and claims none.
"""

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path

from configs.errors import ProviderUnreachable, UsageError
from experiments.executors.copied_text import chunk_of
from experiments.executors.port import Cost, LogChunk, Quote, RunState, Status
from experiments.job.journal import read_records
from experiments.job.result import BROKE, JobProgress
from experiments.job.spec import AnyJob
from experiments.measurement.evidence import Stage

RATE_USD_PER_S = 0.001
TIMEOUT_S = 900.0
STARTUP_S = 100.0

BOUND_USD = (TIMEOUT_S + STARTUP_S) * RATE_USD_PER_S
"""The quote of every job: one dollar."""


class FileProvider:
    """`(root, place, target)` as entry points make it; `root` is unused but for its parent's `cloud`."""

    name = "files"
    logs_elsewhere = True

    def __init__(self, root: Path, place: object = None, *, target: str = "files:T") -> None:
        self.cloud = root.parent / "cloud"
        self.cloud.mkdir(parents=True, exist_ok=True)
        self.target = target
        self.usd_per_s = RATE_USD_PER_S
        """What a test may raise."""

    def quote(self, spec: AnyJob, limit_s: float | None = None) -> Quote:
        self._reach()
        bound_s = TIMEOUT_S + STARTUP_S
        rate = self.usd_per_s
        return Quote(100.0, bound_s, 100.0 * rate, bound_s * rate, "the tests' own price")

    def submit(self, key: str, spec: AnyJob, limit_s: float | None = None) -> str:
        self._reach()
        ref = self._ref(key)
        folder = self.cloud / ref
        folder.mkdir(exist_ok=True)
        if not (folder / "run.json").exists():
            self._begin(folder, spec)
            _write(folder / "run.json", {"key": key, "at_s": time.time()})
        with (self.cloud / "submits.log").open("a") as log:  # after the run: who reads of it here finds it
            log.write(f"{key}\n")
        return ref

    def _begin(self, folder: Path, spec: AnyJob) -> None:
        """Start what works on the run, in its folder, before anybody can find it; here nothing does."""

    def find(self, key: str) -> str | None:
        self._reach()
        ref = self._ref(key)
        return ref if (self.cloud / ref / "run.json").exists() else None

    def poll(self, ref: str) -> Status:
        self._reach()
        folder = self.cloud / ref
        ended = _read(folder / "ended.json")
        told = _read(folder / "progress.json")
        progress = None
        if told is not None:
            progress = JobProgress(Stage.QUICK, int(str(told["done"])), 2, "time launch pair 1")
        if ended is None:
            if not (folder / "run.json").exists():
                return Status(RunState.LOST, failure=f"The provider knows no run {ref}.")
            return Status(RunState.RUNNING if told else RunState.PENDING, progress)
        state = RunState(str(ended["state"]))
        if state is not RunState.DONE:
            told = str(ended.get("failure") or f"The provider says: {state.value}.")
            return Status(state, progress, failure=told, failure_kind=str(ended.get("kind", BROKE)))
        return Status(state, progress, read_records(self.cloud / "records.jsonl"))

    def cancel(self, ref: str) -> None:
        self._reach()
        if (self.cloud / ref / "refuses-to-end").exists():
            raise ProviderUnreachable(f"The provider does not end {ref}.", "Ask it again.")
        if (self.cloud / ref / "run.json").exists() and not (self.cloud / ref / "ended.json").exists():
            self.end(ref, RunState.CANCELLED)

    def logs(self, ref: str, cursor: int = 0) -> LogChunk | None:
        try:
            text = (self.cloud / ref / "log.txt").read_text()
        except FileNotFoundError:
            return None
        return LogChunk(text[cursor : cursor + 8], min(len(text), cursor + 8))

    def extras(self, ref: str, cursor: int = 0) -> LogChunk | None:
        return chunk_of(self.cloud / ref / "extras.jsonl", cursor)

    def cost(self, ref: str) -> Cost:
        self._reach()
        ended = _read(self.cloud / ref / "ended.json") or {}
        wall_s = float(str(ended.get("wall_s", 0.0)))
        return Cost(wall_s, wall_s * RATE_USD_PER_S, billed=True)

    def reconcile(self) -> list[str]:
        self._reach()
        runs = sorted(path.parent for path in self.cloud.glob("*/run.json"))
        return [folder.name for folder in runs if not (folder / "ended.json").exists()]

    def key_of(self, ref: str) -> str | None:
        told = _read(self.cloud / ref / "run.json")
        return None if told is None else str(told["key"])

    def end(self, ref: str, state: RunState = RunState.DONE, wall_s: float = 200.0, **failure: str) -> None:
        """Said by a test: the run has ended so, after so many seconds; `failure` and its `kind` say why."""
        _write(self.cloud / ref / "ended.json", {"state": state.value, "wall_s": wall_s, **failure})

    def tell(self, ref: str, done: int, log: str = "") -> None:
        """Said by a test: the run tells this, and has written this log."""
        (self.cloud / ref / "log.txt").write_text(log)
        _write(self.cloud / ref / "progress.json", {"done": done})

    def submits(self) -> list[str]:
        """The keys of all submits that reached the provider."""
        log = self.cloud / "submits.log"
        return log.read_text().split() if log.exists() else []

    def _reach(self) -> None:
        if (self.cloud / "cut").exists():
            raise ProviderUnreachable("The provider does not answer.", "It is asked again.")

    def _ref(self, key: str) -> str:
        if not key or not all(each.isalnum() or each in ".-_" for each in key) or len(key) > 100:
            raise UsageError(f"{key!r} is no key of a job.")
        return f"fc-{key}"


def _read(path: Path) -> Mapping[str, object] | None:
    try:
        found: Mapping[str, object] = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    return found


def _write(path: Path, content: Mapping[str, object]) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.write_text(json.dumps(content))
    temporary.rename(path)
