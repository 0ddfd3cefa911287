"""Ending what is paid for: every run that this database knows of, and runs that only the executor knows."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Collection
from dataclasses import dataclass

from sqlalchemy import select

from configs.errors import AutoinferError, UsageError
from configs.reasons import reason_given
from db import events, remote_runs
from db.event_kinds import EventKind
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
    """A run that is alive at the executor and that no open run of this database stands for.

    `job` is the label of this database's job that it was made for, None for a run of another database, or of
    nobody; `fault` says why it was not ended.
    """

    executor: str
    ref: str
    job: str | None
    ended: bool
    fault: str | None

    @property
    def ours(self) -> bool:
        """Whether this database made it."""
        return self.job is not None


def stop_all(
    database: Database, make: Make, seen: Collection[int] | None = None, why: str | None = None
) -> tuple[list[Stopped], list[str]]:
    """End every open run, cancelling its job, and every waiting job that was quoted; returns both, the jobs
    by their labels.

    The jobs are taken from their workers first, so that these write nothing more about them. A run that can't
    be ended stays open, and what was reserved for it stays reserved. `seen` are the ids of the runs that the
    user was shown: raises `UsageError` where another one runs by now. `why` is the reason that the user gave,
    kept with each job: raises `UsageError` for one that is none (`reason_given`).
    """
    because = STOPPED if why is None else f"{STOPPED.removesuffix('.')}: {reason_given(why)}."
    if seen is not None:
        with database.read() as session:
            fresh = [run for run in remote_runs.open_runs(session) if run.id not in seen]
        if fresh:
            what = ", ".join(format_label(Noun.JOB, run.job_id) for run in fresh)
            raise UsageError(
                f"Nothing was ended: {what} was submitted meanwhile.",
                "Look at what runs now, then say it again.",
            )
    waiting = select(Job.id).join(JobQuote).where(Job.state == JobState.QUEUED).order_by(Job.id)
    with database.write() as session:
        cancelled = list(session.scalars(waiting))
        for job_id in cancelled:
            cancel(session, job_id, because)
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
                flight.reporter.cancelled(because)
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


def strangers(
    database: Database,
    name: str,
    executor: Executor,
    *,
    end: bool,
    others: bool = False,
    seen: Collection[str] | None = None,
) -> list[Stranger]:
    """The runs that are alive at the executor and that this database has no open run for.

    With `end` those of them are ended that this database made, which it knows by their keys; those of other
    databases only with `others`. Where `seen` is given, those that it names are ended, whosever they are. An
    executor without `key_of` can't say whose a run is: it counts as another's. Raises what the executor
    raises when it can't be asked.
    """
    alive = executor.reconcile()  # before the database is read: what is submitted meanwhile is known there
    with database.read() as session:
        runs = remote_runs.open_runs(session, name)
    known = {run.ref or executor.find(run.key) for run in runs}
    unknown = [ref for ref in alive if ref not in known]
    key_of: Callable[[str], str | None] = getattr(executor, "key_of", lambda ref: None)
    keys = {ref: key for ref in unknown if (key := key_of(ref)) is not None}
    with database.read() as session:
        jobs = remote_runs.jobs_of_keys(session, set(keys.values()))
    found = []
    for ref in unknown:
        job_id = jobs.get(keys.get(ref, ""))
        to_end = ref in seen if seen is not None else end if job_id is not None else others
        found.append(_looked_after(name, executor, ref, job_id, to_end))
    if ended := [each.ref for each in found if each.ended]:
        text = f"Ended at {name}, and not known here: {', '.join(ended)}."
        with database.write() as session:
            events.append(session, EventKind.JOB_ENDED_AT_PROVIDER, text)
    return found


def _looked_after(name: str, executor: Executor, ref: str, job_id: int | None, to_end: bool) -> Stranger:
    """The run after it was ended, where it is to be."""
    fault = None
    if to_end:
        try:
            executor.cancel(ref)
        except AutoinferError as error:
            fault = str(error)
    label = None if job_id is None else format_label(Noun.JOB, job_id)
    return Stranger(name, ref, label, to_end and fault is None, fault)
