"""Hosts as processes with file systems of their own, and what befalls them while they empty a queue.

A host is a folder (runs, artifacts, cache) with workers for two devices, that reach the database by a network
of their own where there is one. What befalls them comes at given numbers of finished jobs.
"""

import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psutil
from sqlalchemy import func, select

from configs.errors import DatabaseLocked
from db import events
from db.models import Experiment, Job, Launch, Worker
from db.session import Database
from db.states import ExperimentState, JobState, WorkerState
from tests.hosts.replay import Replayed, replay
from tests.integration.worker.processes import Workers, processes_of
from tests.proxy import Proxy
from tests.simulated.queueing import enqueue_job, start_campaign
from tests.simulated.specs import FASTER, a_test_job
from tests.waiting import wait_for

LEASE_S = 3.0
DEVICES = ("cpu:0", "cpu:1")
MANY_ATTEMPTS = 50
LAUNCHES_OF_A_JOB = 4
LOOK_S = 0.1
CAMPAIGNS = 2


class Host:
    """Workers of one host, kept at their number: one that was killed is replaced, as a supervisor does."""

    def __init__(
        self, name: str, folder: Path, url: str, proxy: Proxy | None = None, **environment: str
    ) -> None:
        folder.mkdir(parents=True)
        self.name, self.proxy = name, proxy
        self._workers, self._environment = Workers(folder, url), {"TESTS_HOST": name, **environment}
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def keep(self) -> None:
        for device in DEVICES:
            process = self._running.get(device)
            if process is None or process.poll() is not None:
                self._running[device] = self._workers.start(device, lease_s=LEASE_S, **self._environment)

    def one(self) -> subprocess.Popen[bytes]:
        return self._running[DEVICES[0]]

    def kill_a_worker(self) -> None:
        self.one().kill()

    def kill_a_run(self) -> None:
        for process in processes_of(self._workers.folder)[:1]:
            process.kill()

    def end(self) -> None:
        for process in self._running.values():
            process.send_signal(signal.SIGCONT)
        self._workers.end()

    def left(self) -> int:
        """Processes of it that still run."""
        return len(processes_of(self._workers.folder))


@dataclass
class Figures:
    """What a proof counts."""

    jobs: int
    wall_s: float = 0.0
    befell: list[str] = field(default_factory=list)
    lost: int = 0
    doubled: int = 0
    replayed: Replayed = field(default_factory=Replayed)
    by_worker: Counter[str] = field(default_factory=Counter)
    workers_lost: int = 0
    left: int = 0

    def told(self) -> str:
        again = sum(self.replayed.requeued.values())
        return "\n".join(
            (
                f"{self.jobs} jobs in {self.wall_s:.0f} s, by {len(self.by_worker)} workers; "
                f"lost {self.lost}, doubled {self.doubled}, out of order {len(self.replayed.out_of_order)}",
                f"claims {sum(self.replayed.claims.values())}, put back {again}, most attempts of a job "
                f"{max(self.replayed.claims.values(), default=0)}, workers given up {self.workers_lost}, "
                f"processes left {self.left}",
                *(f"  {each}" for each in self.befell),
            )
        )


def fill(database: Database, jobs: int) -> list[int]:
    """Put so many experiments of several campaigns into the queue, at five priorities; returns their ids."""
    campaigns = [start_campaign(database) for _ in range(CAMPAIGNS)]
    made = []
    for number in range(jobs):
        spec = partial(a_test_job, FASTER, seed=number)
        experiment, job = enqueue_job(
            database, campaigns[number % CAMPAIGNS], spec, max_attempts=MANY_ATTEMPTS
        )
        with database.write() as session:
            session.get_one(Job, job).priority = float(number * 7 % 5)
        made.append(experiment)
    return made


Trouble = tuple[int, str, Callable[[], None]]
"""After how many finished jobs, in words, and what is done."""


def prove(
    database: Database, hosts: list[Host], jobs: int, troubles: list[Trouble], limit_s: float
) -> Figures:
    """Empty a queue while troubles befall the hosts; counts, and asserts nothing."""
    experiments = fill(database, jobs)
    figures, begun = Figures(jobs), time.monotonic()
    waiting = sorted(troubles, key=lambda each: each[0])
    try:
        while (done := finished(database)) < jobs:
            assert time.monotonic() - begun < limit_s, f"{done} of {jobs} after {limit_s:.0f} s"
            assert not failed(database), "a job failed for good"
            for host in hosts:
                host.keep()
            if waiting and done >= waiting[0][0]:
                _, words, befall = waiting.pop(0)
                figures.befell.append(f"{time.monotonic() - begun:4.0f} s, {done} done: {words}")
                befall()
            time.sleep(LOOK_S)
        figures.wall_s = time.monotonic() - begun
        assert not waiting, "the queue was empty before all had befallen"
    finally:
        for host in hosts:
            host.end()
    count(database, experiments, figures)
    deadline = time.monotonic() + LEASE_S
    while (left := sum(host.left() for host in hosts)) and time.monotonic() < deadline:
        time.sleep(LOOK_S)
    figures.left = left
    return figures


def finished(database: Database) -> int:
    with database.read() as session:
        return session.execute(
            select(func.count()).select_from(Job).where(Job.state == JobState.DONE)
        ).scalar_one()


def failed(database: Database) -> bool:
    with database.read() as session:
        return session.execute(select(Job.id).where(Job.state == JobState.FAILED)).first() is not None


def count(database: Database, experiments: list[int], figures: Figures) -> None:
    with database.read() as session:
        done = set(session.scalars(select(Experiment.id).where(Experiment.state == ExperimentState.DONE)))
        launches = Counter(session.scalars(select(Launch.experiment_id)))
        figures.lost = sum(each not in done or launches[each] < LAUNCHES_OF_A_JOB for each in experiments)
        figures.doubled = sum(launches[each] > LAUNCHES_OF_A_JOB for each in experiments)
        rows = session.execute(select(Job.id, Job.priority, Job.seq, Job.owner)).all()
        places = {row.id: (row.priority, row.seq) for row in rows}
        figures.by_worker = Counter(str(row.owner) for row in rows)
        mixed = select(func.count()).where(
            Job.experiment_id == Experiment.id, Job.campaign_id != Experiment.campaign_id
        )
        figures.doubled += session.execute(mixed).scalar_one()
        told = [(event.kind, event.text) for event in events.read(session)]
        figures.replayed = replay(told, places)
        lost = select(func.count()).select_from(Worker).where(Worker.state == WorkerState.LOST)
        figures.workers_lost = session.execute(lost).scalar_one()


def freeze_until_taken_over(database: Database, host: Host) -> None:
    """Freeze a worker that has a job until that was put back, for as long as its lease at least; wake it.

    One that stands still in the middle of writing into a file keeps everybody from writing until it wakes,
    and nothing is taken over meanwhile (test_takeover.py has that): such a one is woken and frozen anew.
    """
    process, name = host.one(), f"{host.name}/{DEVICES[0]}#{host.one().pid}"
    while True:
        wait_for(lambda: holds_a_job(database, name))
        process.send_signal(signal.SIGSTOP)
        wait_for(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED)
        if may_write(database):
            break
        process.send_signal(signal.SIGCONT)
    wait_for(lambda: not holds_a_job(database, name))
    process.send_signal(signal.SIGCONT)


def may_write(database: Database) -> bool:
    """Whether no process keeps everybody else from writing for longer than the database waits for it."""
    try:
        with database.write():
            return True
    except DatabaseLocked:
        return False


def holds_a_job(database: Database, owner: str) -> bool:
    with database.read() as session:
        running = select(Job.id).where(Job.owner == owner, Job.state == JobState.RUNNING)
        return session.execute(running).first() is not None
