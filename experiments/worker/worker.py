"""The worker's loop: take a job, run it by the executor, report, record, go on.

While a job runs the worker sleeps until the job ends or `busy_poll_s` is over, looks, and goes back to
sleep. Losing the lease at any point ends the run and drops what it measured. The worker ends when `stop` is
set, and, started with `end_with_parent`, when its parent dies; a job that runs then is ended and given
back.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import Protocol, runtime_checkable

from pydantic import ValidationError

from configs.errors import AutoinferError, DatabaseLocked, LeaseLost
from db import events, workers
from db.claims import BoundProcess
from db.event_kinds import EventKind
from db.session import Database
from db.states import WorkerState
from experiments.executors.local import ProcessGroup
from experiments.executors.port import Executor, RunState, Status
from experiments.job.result import JobResult
from experiments.job.seal import TAMPERED, broken_seal
from experiments.job.spec import SPEC_VERSION, AnyJob, TestJob, parse_job
from experiments.kill_points import KillPoint, reached
from experiments.worker.bell import ring
from experiments.worker.claiming import Taken, is_device_busy, take
from experiments.worker.reporting import Reporter
from experiments.worker.settings import WORKER_ROW_S, WorkerName, WorkerTimes

_LOG = logging.getLogger(__name__)

_RUNS = (RunState.PENDING, RunState.RUNNING)


@runtime_checkable
class RunsHere(Protocol):
    """An executor whose runs are process groups on this host, whose end can be waited for."""

    def group(self, ref: str) -> ProcessGroup | None:
        """The process group of a run."""
        ...

    def wait(self, ref: str, timeout_s: float) -> None:
        """Block until the run ends or the time is over."""
        ...

    def close(self) -> None:
        """End what was started and still runs."""
        ...


class _Stopping(Exception):
    """The worker is to end while a job runs."""


def run_worker(
    database: Database,
    executor: Executor,
    device: str,
    *,
    times: WorkerTimes | None = None,
    stop: threading.Event | None = None,
    once: bool = False,
    end_with_parent: int | None = None,
) -> int:
    """Run jobs on `device` (`cpu`, `cuda:0`) one at a time and return how many came to an end.

    With `once` it returns as soon as no job is waiting; with `end_with_parent`, a process id, when that is no
    longer its parent (told, not asked for here, because the parent may be gone before this runs).

    Raises `AutoinferError` when the database or the disk fails.
    """
    worker = _Worker(
        database, executor, WorkerName.here(device), times or WorkerTimes(), stop or threading.Event()
    )
    worker.parent = end_with_parent
    return worker.run(once=once)


class _Worker:
    def __init__(
        self,
        database: Database,
        executor: Executor,
        name: WorkerName,
        times: WorkerTimes,
        stop: threading.Event,
    ) -> None:
        self._database = database
        self._executor = executor
        self._name = name
        self._times = times
        self._stop = stop
        self._id = 0
        self._said_at = 0.0
        self.parent: int | None = None

    def run(self, *, once: bool) -> int:
        """Take and run jobs until the worker is to end."""
        self._register()
        ended = 0
        try:
            while not self._is_to_end():
                taken = take(self._database, self._executor, self._name, self._times, self._id)
                if taken is not None:
                    reached(KillPoint.AFTER_CLAIM)
                    ended += self._work(taken)
                elif once:
                    break
                else:
                    self._say_idle()
                    self._stop.wait(self._idle_wait_s())
        finally:
            if isinstance(self._executor, RunsHere):
                self._executor.close()
            self._unregister()
        return ended

    def _work(self, taken: Taken) -> bool:
        """Run one job; true when it came to an end under this attempt."""
        reporter = Reporter(self._database, taken, self._times, self._id)
        try:
            return self._run_or_release(taken, reporter)
        except LeaseLost as lost:
            _LOG.warning("%s", lost)
            self._executor.cancel(taken.key)
            return False
        except BaseException:
            self._executor.cancel(taken.key)
            raise
        finally:
            ring()
            self._said_at = 0.0  # idle again, unless another job is taken at once

    def _run_or_release(self, taken: Taken, reporter: Reporter) -> bool:
        try:
            spec = parse_taken(taken)
        except ValueError as error:
            reporter.fail("spec", str(error))
            return True
        broken = broken_seal(spec) if isinstance(spec, TestJob) else None
        if broken is not None:
            reporter.fail(TAMPERED, f"{taken.subject} was changed after it was preregistered: {broken}")
            return True
        try:
            return self._run(taken, spec, reporter)
        except _Stopping:
            self._executor.cancel(taken.key)
            reporter.release()
            return False

    def _run(self, taken: Taken, spec: AnyJob, reporter: Reporter) -> bool:
        if self._executor.quote(spec).upper_bound_usd > 0:  # no budget is asked here
            reporter.fail(
                "price",
                f"The executor {self._executor.name} costs money, and a worker for a device has no budget. "
                "Start one for its target: autoinfer worker --target TARGET",
            )
            return True
        try:
            ref = self._executor.submit(taken.key, spec)
        except AutoinferError as error:  # such as a folder of runs that can't be written
            reporter.fail("error", str(error))
            return True
        reached(KillPoint.AFTER_SUBMIT)
        if isinstance(self._executor, RunsHere) and (group := self._executor.group(ref)) is not None:
            reporter.bind(BoundProcess(self._name.host, group.pgid, group.started_at_s))
        status = self._follow(ref, reporter)
        match status.state:
            case RunState.DONE:
                assert status.result is not None
                self._record(reporter, spec, status.result)
            case RunState.CANCELLED:
                reporter.cancelled()
            case RunState.FAILED:
                reporter.fail("error", status.failure or "The run failed.")
            case _:
                reporter.give_up(status.failure or "The run ended without a result.")
                return False
        return True

    def _record(self, reporter: Reporter, spec: AnyJob, result: JobResult) -> None:
        """Record the result, however long another process keeps the database locked."""
        while True:
            try:
                reporter.record(spec, result)
                return
            except DatabaseLocked as locked:
                if self._is_to_end():
                    raise
                _LOG.warning("%s", locked)

    def _follow(self, ref: str, reporter: Reporter) -> Status:
        """Wait for the end of the run, keeping the lease; returns its last status."""
        beat_at, told_at, told = time.monotonic(), 0.0, None
        while (status := self._executor.poll(ref)).state in _RUNS:
            if self._is_to_end():
                raise _Stopping
            if reporter.cancel_requested():
                reporter.beat(status.progress)  # raises LeaseLost when that is why
                self._executor.cancel(ref)
                return Status(RunState.CANCELLED)
            moment = time.monotonic()
            news = status.progress != told and moment - told_at >= self._times.progress_s
            if news or moment - beat_at >= self._times.heartbeat_s:
                try:
                    reporter.beat(status.progress)
                    beat_at = told_at = moment
                    told = status.progress
                except DatabaseLocked as locked:
                    _LOG.warning("%s", locked)  # the next look tries again; the lease bears two misses
            if isinstance(self._executor, RunsHere):
                self._executor.wait(ref, self._times.busy_poll_s)
            else:
                self._stop.wait(self._times.busy_poll_s)
        return status

    def _is_to_end(self) -> bool:
        orphaned = self.parent is not None and os.getppid() != self.parent
        return self._stop.is_set() or orphaned

    def _register(self) -> None:
        name = self._name
        with self._database.write() as session:
            self._id = workers.register(session, name.owner, name.host, name.pid, name.device)
            events.append(session, EventKind.WORKER_STARTED, f"{name.owner} takes jobs.", name.owner)
        self._said_at = time.monotonic()

    def _say_idle(self) -> None:
        if time.monotonic() - self._said_at >= WORKER_ROW_S:
            with self._database.write() as session:
                workers.beat(session, self._id, WorkerState.IDLE)
            self._said_at = time.monotonic()

    def _idle_wait_s(self) -> float:
        """Until the next look into the queue: long where another worker's job runs on the device, for
        nothing can be taken then and looking takes time from what is measured."""
        busy = is_device_busy(self._database, self._name)
        return self._times.busy_poll_s if busy else self._times.idle_poll_s

    def _unregister(self) -> None:
        with self._database.write() as session:
            workers.beat(session, self._id, WorkerState.STOPPED)
            events.append(session, EventKind.WORKER_STOPPED, f"{self._name.owner} ended.", self._name.owner)


def parse_taken(taken: Taken) -> AnyJob:
    """The spec of a taken job; raises `ValueError`, in a sentence, for one that this worker can't read."""
    version = taken.job.spec.get("version")
    if version != SPEC_VERSION:
        raise ValueError(
            f"The job was written as version {version}, and this worker runs version {SPEC_VERSION}. "
            "Run workers of the version that wrote it."
        )
    try:
        return parse_job(taken.job.spec)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ValueError(f"The job's spec is malformed at {where}: {first['msg']}.") from error
