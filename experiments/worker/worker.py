"""The worker's loop: take a job, run it by the executor, report, record, go on.

While a job runs the worker sleeps until the job ends or `busy_poll_s` is over, looks, and goes back to
sleep. Losing the lease at any point ends the run and drops what it measured. A database that is locked,
does not answer or has no room on its disk is waited for: what runs goes on meanwhile, and is recorded if
nobody took it over. The worker
ends when `stop` is set, and, started with `end_with_parent`, when its parent dies; a job that runs then is
ended and given back.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from dataclasses import asdict

from configs.errors import WAITED_FOR, AutoinferError, DiskFull, LeaseLost
from configs.quantities import format_duration
from db import events, queue, workers
from db.claims import BoundProcess
from db.event_kinds import EventKind
from db.models import Job
from db.session import Database
from db.states import WorkerState
from experiments.disk import DISK_FULL, failure_kind
from experiments.executors.abilities import EndsMeasuring, RunsHere
from experiments.executors.port import Executor, RunState, Status
from experiments.job.seal import TAMPERED, broken_seal
from experiments.job.spec import AnyJob, TestJob
from experiments.kill_points import KillPoint, reached
from experiments.stop_flag import Stop, StopFlag
from experiments.worker.bell import ring
from experiments.worker.claiming import (
    Taken,
    give_back_unheard,
    is_device_busy,
    parse_taken,
    take,
    tell_what_is_left,
)
from experiments.worker.reporting import Reporter
from experiments.worker.settings import (
    ASIDE_S,
    AWAY_S,
    ENDS_WITHIN_S,
    HEARD_OF_S,
    WORKER_ROW_S,
    WorkerName,
    WorkerTimes,
)

_LOG = logging.getLogger(__name__)

_RUNS = (RunState.PENDING, RunState.RUNNING)


class _Stopping(Exception):
    """The worker is to end while a job runs."""


def run_worker(
    database: Database,
    executor: Executor,
    device: str,
    *,
    times: WorkerTimes | None = None,
    stop: Stop | None = None,
    once: bool = False,
    end_with_parent: int | None = None,
    target: str | None = None,
    after_job: Callable[[], None] = lambda: None,
) -> int:
    """Run jobs on `device` (`cpu`, `cuda:0`) one at a time and return how many came to an end.

    With `once` it returns as soon as no job is waiting; with `end_with_parent`, a process id, when that is no
    longer its parent (told, not asked for here, because the parent may be gone before this runs); with
    `target`, what the device is, it leaves alone what is for another.
    `after_job` is called when a job has come to an end.

    Raises `AutoinferError` when the database can't be reached at the start, or when database or disk fail for
    good.
    """
    name = WorkerName.here(device, target)
    worker = _Worker(database, executor, name, times or WorkerTimes(), stop or StopFlag())
    worker.parent, worker.after_job = end_with_parent, after_job
    return worker.run(once=once)


class _Worker:
    def __init__(
        self,
        database: Database,
        executor: Executor,
        name: WorkerName,
        times: WorkerTimes,
        stop: Stop,
    ) -> None:
        self._database = database
        self._executor = executor
        self._name = name
        self._times = times
        self._stop = stop
        self._id = 0
        self._said_at = 0.0
        self._looked_at = -WORKER_ROW_S
        self._told_left: set[str] = set()
        self._was_away = False
        self._warned: type[AutoinferError] | None = None
        self._aside_until_s = 0.0
        self._left_to_others: set[int] = set()
        self.parent: int | None = None
        self.after_job: Callable[[], None] = lambda: None

    def run(self, *, once: bool) -> int:
        """Take and run jobs until the worker is to end."""
        self._enter()
        ended = 0
        try:
            while not self._is_to_end():
                try:
                    taken = self._take() if time.monotonic() >= self._aside_until_s else None
                    if taken is None and not once:
                        self._say_idle()
                        wait_s = self._idle_wait_s()
                except WAITED_FOR as away:
                    self._warn(away, "The worker goes on when that is over.")
                    self._was_away = True
                    self._stop.wait(AWAY_S)
                    continue
                if taken is not None:
                    reached(KillPoint.AFTER_CLAIM)
                    if self._work(taken):
                        ended += 1
                        self._look_after_job()
                elif once:
                    break
                else:
                    self._stop.wait(wait_s)
        finally:
            if isinstance(self._executor, RunsHere):
                self._executor.close()
            self._unregister()
        return ended

    def _take(self) -> Taken | None:
        if self._was_away:
            give_back_unheard(self._database, self._name)
            self._enter_again_if_lost()
            self._was_away, self._warned = False, None
        if time.monotonic() - self._looked_at >= WORKER_ROW_S:
            tell_what_is_left(self._database, self._name, self._told_left)
            self._looked_at = time.monotonic()
        return take(self._database, self._executor, self._name, self._times, self._id)

    def _work(self, taken: Taken) -> bool:
        """Run one job; true when it came to an end under this attempt."""
        reporter = Reporter(self._database, taken, self._times, self._id)
        try:
            return self._run_or_release(taken, reporter)
        except LeaseLost as lost:
            _LOG.warning("%s", lost)
            self._was_away = True
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
            try:
                spec = parse_taken(taken)
            except ValueError as error:
                cause = str(error)
                self._write(taken, lambda: reporter.fail("spec", cause))
                return True
            broken = broken_seal(spec) if isinstance(spec, TestJob) else None
            if broken is not None:
                cause = f"{taken.subject} was changed after it was preregistered: {broken}"
                self._write(taken, lambda: reporter.fail(TAMPERED, cause))
                return True
            return self._run(taken, spec, reporter)
        except _Stopping:
            self._executor.cancel(taken.key)
            try:
                reporter.release()
            except WAITED_FOR as away:
                _LOG.warning("%s The lease of the job runs out by itself.", away.message)
            return False

    def _write(self, taken: Taken, report: Callable[[], None]) -> None:
        """Report, however long the database is locked, does not answer or has no room; raises `_Stopping`
        when the worker is to end meanwhile.

        A commit may be cut off from its answer: then the next try finds that the job has ended under this
        very attempt, and nothing is left to report.
        """
        away = False
        while True:
            try:
                report()
                return
            except LeaseLost:
                with self._database.read() as session:
                    if away and queue.has_ended(session, taken.job):
                        return
                raise
            except WAITED_FOR as error:
                away = True
                if self._is_to_end():
                    raise _Stopping from error
                self._warn(error, "What is to be recorded waits for the end of that.")
                self._stop.wait(AWAY_S)

    def _run(self, taken: Taken, spec: AnyJob, reporter: Reporter) -> bool:
        if self._executor.quote(spec).upper_bound_usd > 0:  # no budget is asked here
            dear = (
                f"The executor {self._executor.name} costs money, and a worker for a device has no budget. "
                "Start one for its target: autoinfer worker --target TARGET"
            )
            self._write(taken, lambda: reporter.fail("price", dear))
            return True
        try:
            ref = self._executor.submit(taken.key, spec)
        except AutoinferError as error:  # such as a folder of runs that can't be written
            kind, cause = failure_kind(error), str(error)
            return self._failed(taken, reporter, kind, cause)
        reached(KillPoint.AFTER_SUBMIT)
        if isinstance(self._executor, RunsHere) and (group := self._executor.group(ref)) is not None:
            bound = BoundProcess(self._name.host, **asdict(group))
            self._write(taken, lambda: reporter.bind(bound))
        status = self._follow(ref, reporter)
        match status.state:
            case RunState.DONE:
                result = status.result
                assert result is not None
                self._write(taken, lambda: reporter.record(spec, result, status.progress))
            case RunState.CANCELLED:
                self._write(taken, reporter.cancelled)
            case RunState.FAILED:
                why = status.failure or "The run failed."
                return self._failed(taken, reporter, status.failure_kind, why)
            case _:
                why = status.failure or "The run ended without a result."
                self._write(taken, lambda: reporter.give_up(why))
                return False
        return True

    def _failed(self, taken: Taken, reporter: Reporter, kind: str, cause: str) -> bool:
        """End the job as failed; one that a full disk of this host ended goes to other hosts once, where
        there are any, and this one is put aside. True when the job came to an end."""
        if kind == DISK_FULL and self._others_take(taken):
            cause = f"The disk is that of {self._name.host}. {cause}"
            if taken.job.id not in self._left_to_others:
                self._left_to_others.add(taken.job.id)
                self._aside_until_s = time.monotonic() + ASIDE_S
                how_long = format_duration(ASIDE_S)
                cause = f"{cause} Other hosts go on; {self._name.host} takes no job for {how_long}."
                self._write(taken, lambda: reporter.release(cause))
                return False
        self._write(taken, lambda: reporter.fail(kind, cause))
        return True

    def _others_take(self, taken: Taken) -> bool:
        with self._database.read() as session:
            wanted = session.get_one(Job, taken.job.id).device_class
            return workers.are_elsewhere(session, self._name.host, (wanted,), HEARD_OF_S)

    def _follow(self, ref: str, reporter: Reporter) -> Status:
        """Wait for the end of the run, keeping the lease; returns its last status."""
        beat_at, told_at, told = time.monotonic(), 0.0, None
        asked_at: float | None = None
        while (status := self._executor.poll(ref)).state in _RUNS:
            if self._is_to_end():
                raise _Stopping
            try:
                if reporter.cancel_requested():
                    reporter.beat(status.progress)  # raises LeaseLost when that is why
                    why = reporter.ends_measuring()
                    if why is None or not isinstance(self._executor, EndsMeasuring):
                        self._executor.cancel(ref)
                        return Status(RunState.CANCELLED)
                    if asked_at is None:
                        asked_at = time.monotonic()
                        self._executor.end_measuring(ref, why)
                    elif time.monotonic() - asked_at > ENDS_WITHIN_S:
                        self._executor.cancel(ref)
                        return Status(RunState.CANCELLED)
            except WAITED_FOR as away:
                self._warn(away)
            moment = time.monotonic()
            news = status.progress != told and moment - told_at >= self._times.progress_s
            if news or moment - beat_at >= self._times.heartbeat_s:
                try:
                    reporter.beat(status.progress)
                    beat_at = told_at = moment
                    told = status.progress
                except WAITED_FOR as away:
                    self._warn(away)  # the next look tries again; the lease bears two misses
            if isinstance(self._executor, RunsHere):
                self._executor.wait(ref, self._times.busy_poll_s)
            else:
                self._stop.wait(self._times.busy_poll_s)
        return status

    def _is_to_end(self) -> bool:
        orphaned = self.parent is not None and os.getppid() != self.parent
        return self._stop.is_set() or orphaned

    def _enter(self) -> None:
        """Register; a campaign's worker waits for room on the database's disk, as its campaign does."""
        while True:
            try:
                self._register()
                return
            except DiskFull as full:
                if self.parent is None or self._is_to_end():
                    raise
                self._warn(full, "The worker goes on when that is over.")
                self._stop.wait(AWAY_S)

    def _register(self) -> None:
        name = self._name
        with self._database.write() as session:
            self._id = workers.register(session, name.owner, name.host, name.pid, name.device)
            events.append(session, EventKind.WORKER_STARTED, f"{name.owner} takes jobs.", name.owner)
        self._said_at = time.monotonic()

    def _say_idle(self) -> None:
        if time.monotonic() - self._said_at >= WORKER_ROW_S:
            self._enter_again_if_lost()
            self._said_at = time.monotonic()

    def _enter_again_if_lost(self) -> None:
        """Say that the worker lives; one that was given up while it was silent is entered as a new one."""
        with self._database.write() as session:
            present = workers.beat(session, self._id, WorkerState.IDLE)
        if not present:
            self._register()

    def _idle_wait_s(self) -> float:
        """Until the next look into the queue: long where another worker's job runs on the device, for
        nothing can be taken then and looking takes time from what is measured."""
        busy = is_device_busy(self._database, self._name)
        return self._times.busy_poll_s if busy else self._times.idle_poll_s

    def _unregister(self) -> None:
        try:
            with self._database.write() as session:
                workers.beat(session, self._id, WorkerState.STOPPED)
                events.append(
                    session, EventKind.WORKER_STOPPED, f"{self._name.owner} ended.", self._name.owner
                )
        except WAITED_FOR as away:
            _LOG.warning("%s It is not told that the worker ended.", away.message)

    def _warn(self, away: AutoinferError, then: str = "") -> None:
        """Say it in the log once, as long as it lasts: the log may lie on the disk that is full."""
        if self._warned is not type(away):
            _LOG.warning("%s", f"{away.message} {then}".rstrip())
            self._warned = type(away)

    def _look_after_job(self) -> None:
        try:
            self.after_job()
        except WAITED_FOR as away:
            self._warn(away)  # what it was to do is done after the next job
