"""Ending what is paid for: every run that this database knows of, and runs that only the executor knows."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import select

from configs.errors import AutoinferError
from db import remote_runs
from db.labels import Noun, format_label
from db.models import Job, JobQuote
from db.remote_runs import Run
from db.session import Database
from db.states import JobState
from experiments.executors.port import Cost, Executor
from experiments.remote.flight import Flight, settle_run
from experiments.remote.settings import RemoteTimes
from experiments.worker.cancelling import cancel
from experiments.worker.claiming import Taken

Make = Callable[[str, str | None], Executor]
"""Makes the executor of this name, for this target if one is known; raises `AutoinferError`."""

STOPPED = "The user stopped everything remote."


@dataclass(frozen=True)
class Stopped:
    """What became of one run: `fault` says in a sentence why it may still run, None where it has ended;
    `cost` None where nobody told it."""

    job: str
    key: str
    executor: str
    target: str
    cost: Cost | None
    fault: str | None


@dataclass(frozen=True)
class Stranger:
    """A run that the executor knows and this database does not; `fault` says why it was not ended."""

    executor: str
    ref: str
    ended: bool
    fault: str | None


def stop_all(database: Database, make: Make) -> tuple[list[Stopped], list[str]]:
    """End every open run, cancelling its job, and every waiting job that was quoted; returns both, the jobs
    by their labels.

    The jobs are taken from their workers first, so that these write nothing more about them. A run that can't
    be ended stays open, and what was reserved for it stays reserved.
    """
    waiting = select(Job.id).join(JobQuote).where(Job.state == JobState.QUEUED).order_by(Job.id)
    with database.write() as session:
        cancelled = list(session.scalars(waiting))
        for job_id in cancelled:
            cancel(session, job_id, STOPPED)
    with database.read() as session:
        runs = remote_runs.open_runs(session)
    owner = f"{socket.gethostname()}/stop#{os.getpid()}"
    times = RemoteTimes()
    with database.write() as session:
        taken = {
            run.id: claimed
            for claimed, run in remote_runs.take_over(
                session, [run.job_id for run in runs], owner, times.lease_s, by_force=True
            )
        }
    stopped = []
    for run in runs:
        claimed = taken.get(run.id)
        label = format_label(Noun.JOB, run.job_id)
        try:
            cost = _end(make(run.executor, run.target), run)
            if claimed is None:
                with database.write() as session:
                    settle_run(session, run, "cancelled", cost, None, label)
            else:
                flight = Flight(database, Taken(claimed, run.key), run, times, 0, None)
                flight.cost = cost
                flight.reporter.cancelled()
            stopped.append(Stopped(label, run.key, run.executor, run.target, cost, None))
        except AutoinferError as error:
            stopped.append(Stopped(label, run.key, run.executor, run.target, None, str(error)))
    with database.write() as session:
        remote_runs.let_go(session, owner)
    return stopped, [format_label(Noun.JOB, each) for each in cancelled]


def _end(executor: Executor, run: Run) -> Cost | None:
    ref = run.ref or executor.find(run.key)
    if ref is None:
        return Cost(0.0, 0.0)
    executor.cancel(ref)
    try:
        return executor.cost(ref)
    except AutoinferError:
        return None


def strangers(database: Database, name: str, executor: Executor, *, end: bool) -> list[Stranger]:
    """The runs that are alive at the executor and that this database has no open run for; ended with `end`.

    Raises what the executor raises when it can't be asked.
    """
    alive = executor.reconcile()  # before the database is read: what is submitted meanwhile is known there
    with database.read() as session:
        runs = remote_runs.open_runs(session, name)
    known = {run.ref or executor.find(run.key) for run in runs}
    found = []
    for ref in alive:
        if ref in known:
            continue
        fault = None
        if end:
            try:
                executor.cancel(ref)
            except AutoinferError as error:
                fault = str(error)
        found.append(Stranger(name, ref, end and fault is None, fault))
    return found
