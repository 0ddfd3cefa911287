"""The remote worker's loop: keeps many jobs of one target in flight, each paid for within its budgets.

A turn extends all leases at once, takes over runs that nobody looks after, submits what may be submitted,
and looks at the runs that are due. Losing a lease drops the job and touches nothing of its run: another
worker has taken it over. The loop ends when `stop` is set, or its parent dies; then every run is ended and
its job given back, or, with `leave_running`, left to the next worker. After SIGKILL the next worker takes
over: the runs go on meanwhile.
"""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from configs.errors import WAITED_FOR, AutoinferError, LeaseLost, ProviderUnreachable
from db import events, queue, remote_runs, workers
from db.campaign_owner import place_mark
from db.event_kinds import EventKind
from db.remote_runs import Run
from db.session import Database
from db.states import WorkerState
from experiments.disk import failure_kind
from experiments.executors.port import Cost, Executor, RunState, Status
from experiments.job.seal import TAMPERED, broken_seal
from experiments.job.spec import TestJob
from experiments.kill_points import KillPoint, reached
from experiments.remote.concluding import conclusion
from experiments.remote.dispatching import Dispatcher
from experiments.remote.flight import Flight
from experiments.remote.got_gpu import gpu_asked
from experiments.remote.limiting import PlannedSeconds, unplanned
from experiments.remote.looks import Looks
from experiments.remote.provider import Provider
from experiments.remote.settings import MOST_IN_FLIGHT, RemoteTimes
from experiments.remote.taking_over import take_over
from experiments.stop_flag import Stop, StopFlag
from experiments.telemetry.keeping import keep
from experiments.worker.bell import ring
from experiments.worker.claiming import Taken
from experiments.worker.settings import WorkerName

_LOG = logging.getLogger(__name__)

SUBMITS_A_TURN = 8
"""Jobs that are submitted in one turn, so that leases are extended in time however slow a provider is."""

_RUNS = (RunState.PENDING, RunState.RUNNING)


class RemoteWorker:
    """Runs the jobs of `target` by `executor`, those of one campaign where that is named. `planned_s` tells
    what a job's plan takes, by which its limit is set (`remote.limiting`). `on_submit` is told the seconds
    from each lease to its submit, `after_job` is called when a job has come to an end; `logs_root` is where
    the logs of an executor that keeps none here are copied to, None for nowhere."""

    def __init__(
        self,
        database: Database,
        executor: Executor,
        target: str,
        *,
        times: RemoteTimes | None = None,
        at_once: int = MOST_IN_FLIGHT,
        logs_root: Path | None = None,
        stop: Stop | None = None,
        leave_running: bool = False,
        campaign_id: int | None = None,
        end_with_parent: int | None = None,
        planned_s: PlannedSeconds = unplanned,
        on_submit: Callable[[float], None] = lambda seconds: None,
        after_job: Callable[[], None] = lambda: None,
    ) -> None:
        self._database = database
        self._executor = executor
        # A restarted container may have name and process id of the last one, whose leases are not its own.
        self._name = replace(WorkerName.here(target), mark=place_mark() + uuid.uuid4().hex[:4])
        self._times = times or RemoteTimes()
        self._at_once = at_once
        self._provider = Provider(executor)
        self._logs_root = None if self._provider.keeps_logs else logs_root
        self._gpu_asked = gpu_asked(executor, target)
        self._stop: Stop = stop or StopFlag()
        self._leave_running = leave_running
        self._campaign_id = campaign_id
        self._parent = end_with_parent
        self._planned_s = planned_s
        self._on_submit = on_submit
        self._after_job = after_job
        self._id = 0
        self._dispatcher: Dispatcher | None = None
        self._flights: dict[int, Flight] = {}
        self._looks = Looks(self._flights, self._times)
        self._beat_at = self._looked_at = float("-inf")
        self._ended = 0
        self._warned: type[AutoinferError] | None = None

    @property
    def in_flight(self) -> int:
        """How many jobs it holds."""
        return len(self._flights)

    @property
    def looked_at(self) -> int:
        """How many of them it has looked at since it took them."""
        return sum(flight.polled > 0 for flight in self._flights.values())

    def run(self, *, once: bool = False) -> int:
        """Take and run jobs until the worker is to end, and return how many came to an end; with `once` until
        nothing is in flight and nothing can be submitted.

        Raises `AutoinferError` when the database or the disk fails.
        """
        self.begin()
        try:
            while not self._is_to_end():
                try:
                    idle = self.turn()
                except WAITED_FOR as away:
                    self._warn(away)
                    idle = False
                if once and idle:
                    break
                self._stop.wait(self.wait_s())
        finally:
            self._let_go()
            self._provider.close()
            self._unregister()
        return self._ended

    def turn(self) -> bool:
        """One round; true when nothing is in flight and nothing could be taken."""
        moment = time.monotonic()
        if moment - self._beat_at >= self._times.heartbeat_s:
            self._beat()
            self._warned = None
            self._take_over()
            self._beat_at = moment
        if moment - self._looked_at >= self._times.look_s:
            self._end_cancelled()
            self._looked_at = moment
        self._submit_next()
        self._look_at_runs()
        return not self._flights

    def _beat(self) -> None:
        state = WorkerState.BUSY if self._flights else WorkerState.IDLE
        with self._database.write() as session:
            held = queue.heartbeat_all(session, self._name.owner, self._times.lease_s)
            workers.beat(session, self._id, state)
        for flight in list(self._flights.values()):
            if flight.fence not in held:
                self._lost(flight)

    def _lost(self, flight: Flight) -> None:
        """Another worker has it, and looks after its run."""
        _LOG.warning("Job %d was taken over by another worker.", flight.taken.job.id)
        self._flights.pop(flight.taken.job.id, None)

    def _take_over(self) -> None:
        for taken, run in take_over(
            self._database, self._name, self._executor.name, self._times.lease_s, self._campaign_id
        ):
            self._keep(self._flight(taken, run))

    def _flight(self, taken: Taken, run: Run) -> Flight:
        return Flight(self._database, taken, run, self._times, self._id, self._logs_root)

    def _keep(self, flight: Flight, wait_s: float = 0.0) -> None:
        self._flights[flight.taken.job.id] = flight
        self._looks.add(flight, wait_s)

    def _end_cancelled(self) -> None:
        with self._database.read() as session:
            asked = remote_runs.cancels_asked(session, self._name.owner)
        flights = [self._flights[each] for each in sorted(asked) if each in self._flights]
        for flight, fault in zip(flights, self._provider.cancel(flights), strict=True):
            if isinstance(fault, AutoinferError):
                _LOG.warning("%s", fault)  # asked again at the next look
            else:
                self._end(flight, flight.reporter.cancelled)

    def _submit_next(self) -> None:
        dispatcher = self._dispatcher
        assert dispatcher is not None  # made when the worker was entered
        for _ in range(SUBMITS_A_TURN):
            if len(self._flights) >= self._at_once:
                return
            begun = time.monotonic()
            try:
                found = dispatcher.take()
            except ProviderUnreachable as error:
                _LOG.warning("%s", error)
                return
            if found is None:
                return
            taken, run = found
            if run is None:
                self._fail_unread(taken)
                continue
            flight = self._flight(taken, run)
            flight.asked = False
            self._keep(flight, self._times.soonest_s)
            reached(KillPoint.BEFORE_SUBMIT)
            self._submit(flight, begun)

    def _fail_unread(self, taken: Taken) -> None:
        """A job whose spec nobody here can read; nothing was submitted."""
        from experiments.worker.claiming import parse_taken
        from experiments.worker.reporting import Reporter

        try:
            parse_taken(taken)
        except ValueError as error:
            Reporter(self._database, taken, self._times.as_worker, self._id).fail("spec", str(error))
            self._ended += 1
            ring()

    def _submit(self, flight: Flight, begun: float | None = None) -> None:
        """Submit the run under its key, or find it where it was submitted before, and store its ref."""
        try:
            spec = flight.spec()
        except ValueError as error:
            self._never_ran(flight, "spec", str(error))
            return
        broken = broken_seal(spec) if isinstance(spec, TestJob) else None
        if broken is not None:
            what = f"{flight.taken.subject} was changed after it was preregistered: {broken}"
            self._never_ran(flight, TAMPERED, what)
            return
        try:
            ref = self._executor.find(flight.run.key) if flight.asked else None
            if ref is None:
                if begun is not None:
                    self._on_submit(time.monotonic() - begun)
                flight.asked = True
                ref = self._executor.submit(flight.run.key, spec, flight.run.limit_s)
        except ProviderUnreachable as error:
            _LOG.warning("%s", error)  # it is looked for by its key when it is due
            return
        except AutoinferError as error:
            self._never_ran(flight, failure_kind(error), str(error))
            return
        reached(KillPoint.AFTER_SUBMIT)
        flight.ref = ref
        with self._database.write() as session:
            remote_runs.submitted(session, {flight.run.id: ref})

    def _never_ran(self, flight: Flight, kind: str, cause: str) -> None:
        flight.cost = Cost(0.0, 0.0)
        self._end(flight, lambda: flight.reporter.fail(kind, cause))

    def _look_at_runs(self) -> None:
        """Look at the runs that are due, and write what they told in one transaction."""
        flights = self._looks.take()
        for flight in [each for each in flights if each.ref is None]:
            self._submit(flight)
        flights = [each for each in flights if each.ref is not None and each.fence[0] in self._flights]
        running: list[tuple[Flight, Status]] = []
        for flight, status in zip(flights, self._provider.poll(flights), strict=True):
            if isinstance(status, AutoinferError):
                _LOG.warning("%s", status)
                continue
            flight.polled += 1
            if status.state in _RUNS:
                running.append((flight, status))
            else:
                self._conclude(flight, status)
        self._tell(running)
        self._keep_means([flight for flight, _ in running])
        if running:
            reached(KillPoint.WHILE_RUNNING)

    def _keep_means(self, flights: list[Flight]) -> None:
        means = [mean for each in flights if each.extras is not None for mean in each.extras.take_means()]
        if means:
            with self._database.write() as session:
                keep(session, means)

    def _tell(self, running: list[tuple[Flight, Status]]) -> None:
        news = [each for each in running if each[0].reporter.is_news(each[1].progress)]
        if not news:
            return
        lost: list[Flight] = []
        with self._database.write() as session:
            for flight, status in news:
                try:
                    queue.hold(session, flight.taken.job)
                except LeaseLost:
                    lost.append(flight)
                    continue
                flight.reporter.store(session, status.progress)
        for flight, status in news:
            flight.reporter.told(status.progress)
        for flight in lost:
            self._lost(flight)

    def _conclude(self, flight: Flight, status: Status) -> None:
        assert flight.ref is not None
        flight.cost = self._provider.cost(flight.ref)
        self._end(flight, conclusion(flight, status, self._gpu_asked, self._executor.name))

    def _end(self, flight: Flight, write: Callable[[], None]) -> None:
        """Write the end of a job; a database that another process keeps locked, or that has no room, is tried
        again at the next look, and a lost lease drops what was measured: another worker records it."""
        try:
            write()
        except LeaseLost:
            self._lost(flight)
            return
        except WAITED_FOR as away:
            self._warn(away)
            return
        self._flights.pop(flight.taken.job.id, None)
        self._ended += 1
        ring()
        self._after_job()

    def wait_s(self) -> float:
        """Seconds until something is due: a run, the queue, the leases."""
        moment = time.monotonic()
        queue_at, leases_at = self._looked_at + self._times.look_s, self._beat_at + self._times.heartbeat_s
        return max(0.0, min(queue_at, leases_at, self._looks.next_at) - moment)

    def _is_to_end(self) -> bool:
        orphaned = self._parent is not None and os.getppid() != self._parent
        return self._stop.is_set() or orphaned

    def _let_go(self) -> None:
        """End every run and give its job back, or leave them to the next worker."""
        flights = list(self._flights.values())
        if not self._leave_running:
            for flight, fault in zip(flights, self._provider.cancel(flights), strict=True):
                if isinstance(fault, AutoinferError):
                    _LOG.warning(
                        "The run %s was not ended: %s End it with: autoinfer stop --remote",
                        flight.run.key,
                        fault,
                    )
                else:
                    self._end(flight, flight.reporter.release)
        try:
            with self._database.write() as session:
                remote_runs.let_go(session, self._name.owner)
        except WAITED_FOR as away:
            _LOG.warning("%s The leases of its jobs run out by themselves.", away.message)

    def _warn(self, away: AutoinferError) -> None:
        """Say it in the log once, as long as it lasts: the log may lie on the disk that is full."""
        if self._warned is not type(away):
            _LOG.warning("%s", away)
            self._warned = type(away)

    def begin(self) -> None:
        """Enter the worker into the roll; `run` does so itself."""
        name = self._name
        with self._database.write() as session:
            self._id = workers.register(session, name.owner, name.host, name.pid, name.device)
            events.append(session, EventKind.WORKER_STARTED, f"{name.owner} takes jobs.", name.owner)
        self._dispatcher = Dispatcher(
            self._database,
            self._executor,
            name,
            self._times,
            self._id,
            self._campaign_id,
            planned_s=self._planned_s,
        )

    def _unregister(self) -> None:
        try:
            with self._database.write() as session:
                workers.beat(session, self._id, WorkerState.STOPPED)
                text = f"{self._name.owner} ended."
                events.append(session, EventKind.WORKER_STOPPED, text, self._name.owner)
        except WAITED_FOR as away:
            _LOG.warning("%s It is not told that the worker ended.", away.message)
