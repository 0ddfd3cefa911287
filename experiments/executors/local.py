"""The executor `local`: a job is a process group on this machine, its folder tells everything about it.

    <root>/<key>/spec.json, place.json   what is asked, and where
    <root>/<key>/process.json            the group's leader: id, and what tells it from a later one
    <root>/<key>/records.jsonl           what the job told, line by line
    <root>/<key>/log.txt, launches/      output of the job; of its launches
    <root>/<key>/exit.json               how the job's process ended
    <root>/<key>/cancelled.json          somebody asked for its end

The group is forked from a process that has loaded what every job loads (`forking`); its leader ends the whole
group with the job. When the process that holds this object dies, by SIGKILL too, the guard pipe ends the
group (`guard`). A ref is the key.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import select
import sys
import sysconfig
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import experiments
from configs.errors import AutoinferError, DiskFull, UsageError
from configs.language_model import KEY_VARIABLE
from experiments.disk import DISK_FULL, check_disk_held, disk_in_words
from experiments.engines.server_process import sweep_launches
from experiments.executors.copied_text import LOG_CHUNK_BYTES, chunk_of
from experiments.executors.forking import EXIT_NAME
from experiments.executors.loaded import LoadedProcess, Started
from experiments.executors.port import Cost, LogChunk, Quote, RunState, Status
from experiments.executors.process_group import ProcessGroup, end_group, leader_is_alive
from experiments.job.journal import Journal
from experiments.job.limits import ask_to_end
from experiments.job.place import PLACE_NAME, RECORDS_NAME, SPEC_NAME, Place
from experiments.job.running_job import LAUNCH_LOGS
from experiments.job.spec import AaJob, AnyJob, BaselineJob, BuildJob, TestJob, job_data
from experiments.measurement.evidence import Stage

JOB_COMMAND = (sys.executable, "-P", "-m", "experiments.job")
"""What is started to fork runs from; `-P` keeps a folder `experiments` of the user's from shadowing ours."""

NOT_FOR_JOBS = (
    "AUTOINFER_DATABASE_URL",
    "PGPASSWORD",
    "PGPASSFILE",
    "AUTOINFER_RUNPOD_BOARD",
    "RUNPOD_API_KEY",
    KEY_VARIABLE,
    "MODAL_TOKEN_ID",
    "MODAL_TOKEN_SECRET",
)
"""Variables that a job is not given: it knows no database, rents nothing, and may run a program that a model
wrote."""

_PROCESS_NAME = "process.json"
_CANCELLED_NAME = "cancelled.json"
_LOG_NAME = "log.txt"
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
_EXPECTED_S: Mapping[type, float] = {BaselineJob: 120.0, TestJob: 60.0, AaJob: 20.0, BuildJob: 60.0}
"""Seconds a job takes on the reference model on two cores, for a quote without history; measured in
tests/benchmarks. A build takes no longer than a test, which builds what it needs."""


class LocalExecutor:
    """Runs jobs below `root`; `place` tells their folders; `command` loads what they load, and forks them."""

    name = "local"

    def __init__(
        self,
        root: Path,
        place: Place,
        command: Sequence[str] = JOB_COMMAND,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.root = root
        self._place = place
        self._command = tuple(command)
        self._environment = dict(environment or {})
        self._started: dict[str, Started] = {}
        self._loaded: LoadedProcess | None = None
        self._journals: dict[str, Journal] = {}

    def quote(self, spec: AnyJob, limit_s: float | None = None) -> Quote:
        """Time on this machine costs nothing; the bound is the sum of the stages' limits."""
        bound_s = sum(self._place.limits_s.get(stage, 0.0) for stage in Stage)
        return Quote(_EXPECTED_S[type(spec)], bound_s, 0.0, 0.0, "this machine's own time")

    def submit(self, key: str, spec: AnyJob, limit_s: float | None = None) -> str:
        """Start the job, unless one with this key was started; raises `UsageError` for a malformed key."""
        if not _KEY.fullmatch(key):
            raise UsageError(
                f"{key!r} is no key of a job.", "Use up to 100 letters, digits, dots and dashes."
            )
        folder = self.root / key
        with disk_in_words(self.root, "runs"):
            folder.mkdir(parents=True, exist_ok=True)
            with _locked(folder):
                if not (folder / _PROCESS_NAME).exists():
                    (folder / SPEC_NAME).write_text(json.dumps(job_data(spec)))
                    (folder / PLACE_NAME).write_text(self._place.model_dump_json())
                    self._start(key, folder)
        return key

    def find(self, key: str) -> str | None:
        """The key itself, which is the ref, where a run was started under it."""
        started = _KEY.fullmatch(key) is not None and (self.root / key / _PROCESS_NAME).exists()
        return key if started else None

    def poll(self, ref: str) -> Status:
        """Where the run stands, from its folder alone; reads only what was added since the last poll."""
        folder = self.root / ref
        group = self.group(ref)
        if group is None:
            return Status(RunState.LOST, failure=f"There is no run {ref} on this machine.")
        alive = self._is_alive(ref, group)
        journal = self._journals.setdefault(ref, Journal(folder / RECORDS_NAME))
        journal.update()
        fold = journal.fold
        if alive:
            return Status(RunState.RUNNING if fold.started else RunState.PENDING, fold.progress)
        end_group(group)  # whatever outlived its leader
        sweep_launches(self._place.cache_dir)
        journal.update()
        self._journals.pop(ref)
        if fold.ended:
            return Status(RunState.DONE, fold.progress, journal.result())
        if (folder / _CANCELLED_NAME).exists():
            return Status(RunState.CANCELLED, fold.progress)
        if fold.error is not None:
            return Status(RunState.FAILED, fold.progress, failure=fold.error, failure_kind=fold.error_kind)
        return self._without_result(folder, journal)

    def cancel(self, ref: str) -> None:
        """End the run's whole group; returns when nothing of it is left. A run that ended stays as it was."""
        folder = self.root / ref
        group = self.group(ref)
        if group is None:
            return
        if self._is_alive(ref, group):
            with suppress(OSError):  # a disk that is full or gone keeps nobody from ending it
                (folder / _CANCELLED_NAME).write_text(json.dumps({"at_s": time.time()}))
        end_group(group)
        if (started := self._started.pop(ref, None)) is not None:
            started.release()
            started.wait_until_gone()
        sweep_launches(self._place.cache_dir)

    def end_measuring(self, ref: str, why: str) -> None:
        """Ask a run to end its measuring and keep what it measured, `why` in a sentence; it may take a while
        to obey, or not come to it."""
        with suppress(OSError):  # whoever asks ends it later, where it does not hear of it
            ask_to_end(self.root / ref, why)

    def logs(self, ref: str, cursor: int = 0) -> LogChunk | None:
        """The run's output from byte `cursor` on, at most 64 KiB, cut between characters; None where its
        folder is gone."""
        path = self.root / ref / _LOG_NAME
        return chunk_of(path, cursor) if path.is_file() else None

    def cost(self, ref: str) -> Cost:
        """The seconds from the run's start to its end, or to now; never a dollar."""
        started = _read_json(self.root / ref / _PROCESS_NAME)
        if started is None:
            return Cost(0.0, 0.0)
        ended = _read_json(self.root / ref / EXIT_NAME)
        ended_at_s = time.time() if ended is None else float(str(ended["ended_at_s"]))
        return Cost(max(0.0, ended_at_s - float(str(started["submitted_at_s"]))), 0.0)

    def reconcile(self) -> list[str]:
        """Refs of runs whose group's leader is alive, whoever started them."""
        found = []
        for told in sorted(self.root.glob(f"*/{_PROCESS_NAME}")):
            ref = told.parent.name
            group = self.group(ref)
            if group is not None and self._is_alive(ref, group):
                found.append(ref)
        return found

    def group(self, ref: str) -> ProcessGroup | None:
        """The process group of a run, None when it was never started here."""
        told = _read_json(self.root / ref / _PROCESS_NAME)
        return None if told is None else _group_told(told)

    def wait(self, ref: str, timeout_s: float) -> None:
        """Block until the run ends or `timeout_s` seconds are over, without using the processor."""
        started = self._started.get(ref)
        if started is None:
            time.sleep(timeout_s)
        else:
            select.select([started.ended], [], [], timeout_s)

    def close(self) -> None:
        """End every run that this object started and that still runs, and let go of what it holds of them."""
        for ref in list(self._started):
            self.cancel(ref)
        if self._loaded is not None:
            self._loaded.end()
            self._loaded = None

    def _start(self, key: str, folder: Path) -> None:
        submitted_at_s = time.time()
        started = self._fork(folder)
        self._started[key] = started
        temporary = folder / (_PROCESS_NAME + ".tmp")
        told = {
            "pid": started.group.pgid,
            "started_at_s": started.group.started_at_s,
            "kernel": started.group.kernel,
            "started_ticks": started.group.started_ticks,
            "submitted_at_s": submitted_at_s,
        }
        try:
            temporary.write_text(json.dumps(told))
            temporary.rename(folder / _PROCESS_NAME)
        except BaseException:  # nobody could find it any more: its guard ends it
            self._started.pop(key).release()
            raise

    def _fork(self, folder: Path) -> Started:
        """The run's group, forked from the process that is loaded, or from a new one where that has died."""
        if self._loaded is not None:
            try:
                return self._loaded.start(folder, folder / _LOG_NAME)
            except AutoinferError:
                self._loaded.end()
                self._loaded = None
        environment = {name: value for name, value in os.environ.items() if name not in NOT_FOR_JOBS}
        environment |= self._environment
        if paths := _code_path(environment.get("PYTHONPATH")):
            environment["PYTHONPATH"] = paths
        loaded = LoadedProcess(self._command, environment)
        try:
            started = loaded.start(folder, folder / _LOG_NAME)
        except BaseException:
            loaded.end()
            raise
        self._loaded = loaded
        return started

    def _is_alive(self, ref: str, group: ProcessGroup) -> bool:
        alive = leader_is_alive(group)
        if not alive and (started := self._started.pop(ref, None)) is not None:
            started.release()
        return alive

    def _without_result(self, folder: Path, journal: Journal) -> Status:
        said = f"{_last_line(folder / _LOG_NAME)}\n{_last_launch(folder)}"
        try:
            check_disk_held("The run", said, folder, self._place.artifacts_dir, self._place.cache_dir)
        except DiskFull as full:  # its own word for it may have found no room
            progress = journal.fold.progress
            return Status(RunState.FAILED, progress, failure=str(full), failure_kind=DISK_FULL)
        ended = _read_json(folder / EXIT_NAME)
        if ended is None:
            return Status(
                RunState.LOST,
                journal.fold.progress,
                failure="The run's processes are gone and left no result.",
            )
        code = int(str(ended["code"]))
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return Status(
            RunState.LOST,
            journal.fold.progress,
            failure=f"The process of the run {how} before its result was complete; its log "
            f"({folder / _LOG_NAME}) ends: {_last_line(folder / _LOG_NAME)}{_last_launch(folder)}",
        )


def _group_told(told: Mapping[str, object]) -> ProcessGroup:
    """The group that a process.json names; an older version told the leader's start by the clock alone."""
    kernel, ticks = told.get("kernel"), told.get("started_ticks")
    return ProcessGroup(
        int(str(told["pid"])),
        float(str(told["started_at_s"])),
        None if kernel is None else str(kernel),
        None if ticks is None else int(str(ticks)),
    )


PARENT_IS_GONE = "BrokenPipeError"
"""How a launch's last words begin that could not answer its job any more."""


def _last_launch(folder: Path) -> str:
    """The last line of the launch that said something last, for the same sentence; empty where none did.

    A launch whose job is gone may say so as it ends, which is no cause of anything.
    """
    logs = [log for log in (folder / LAUNCH_LOGS).glob("*.log") if log.stat().st_size]
    said = {log: line for log in logs if not (line := _last_line(log)).startswith(PARENT_IS_GONE)}
    if not said:
        return ""
    last = max(said, key=lambda log: log.stat().st_mtime_ns)
    return f"; that of its last launch ({last.name}) ends: {said[last]}"


def _last_line(log: Path) -> str:
    """The last line of a log, for a sentence about an end that nobody foresaw."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - LOG_CHUNK_BYTES))
            lines = file.read().decode(errors="replace").split("\n")
    except FileNotFoundError:
        lines = []
    return next((line for line in reversed(lines) if line.strip()), "nothing was said.")


def _code_path(given: str | None) -> str | None:
    """PYTHONPATH under which a job runs the code that runs here, where that is not installed."""
    home = str(Path(experiments.__file__).resolve().parents[1])
    if home in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")):
        return given
    return os.pathsep.join([home, *([given] if given else [])])


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with (folder / "submit.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _read_json(path: Path) -> dict[str, object] | None:
    try:
        content = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return content if isinstance(content, dict) else None
