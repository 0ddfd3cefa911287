"""Taking a job: first whatever died before us is put in order, then the next job is claimed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError
from sqlalchemy import ColumnElement, and_, exists, func, literal, not_, or_, select, update
from sqlalchemy.orm import Session

from db import events, queue, workers
from db import queue_statements as sql
from db.claims import BoundProcess, ClaimedJob, Reaped
from db.clock import now
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Experiment, Hypothesis, Job
from db.session import Database
from db.states import ExperimentState, HypothesisState, JobState, WorkerState
from experiments.executors.port import Executor
from experiments.executors.process_group import ProcessGroup, end_group
from experiments.job.spec import SPEC_VERSION, AnyJob, parse_job
from experiments.worker.reaping import experiment_label, reap
from experiments.worker.settings import WorkerName, WorkerTimes

_TOKEN_CHARACTERS = 8
"""Characters of the digest in a run's key: enough to tell jobs of equal id in different databases apart."""

_SEPARATOR = "-"

_MOST_LEFT = 100
"""Jobs that are looked through for what to say about those that are left."""


@dataclass(frozen=True)
class Taken:
    """A claimed job and the key under which its run is submitted."""

    job: ClaimedJob
    key: str

    @property
    def subject(self) -> str | None:
        """The label of its experiment, for events."""
        return experiment_label(self.job.experiment_id)


def run_key(database: Database, job_id: int, created_at: datetime, attempt: int) -> str:
    """The key of an attempt's run: the same whenever it is asked for, and another one in another database."""
    return run_key_in(database.shown, job_id, created_at, attempt)


def run_key_in(database: str, job_id: int, created_at: datetime, attempt: int) -> str:
    """The same, where `database` is its address as it may be shown."""
    text = f"{database}\n{job_id}\n{created_at.isoformat()}"
    token = hashlib.sha256(text.encode()).hexdigest()[:_TOKEN_CHARACTERS]
    return _SEPARATOR.join((f"job{job_id}", token, str(attempt)))


def take(
    database: Database, executor: Executor, name: WorkerName, times: WorkerTimes, worker_id: int
) -> Taken | None:
    """Claim the next job for the worker's device; None when there is none.

    Jobs whose lease ran out are taken from their owners before, and the processes they left behind on this
    host are ended: nothing of an earlier attempt runs any more when this returns. Raises `AutoinferError`
    when such a process can't be ended.
    """
    if not _something_to_do(database, name):
        return None
    with database.write() as session:
        reaped = reap(session)
    _end_leftovers(database, executor, name, reaped)
    with database.write() as session:
        job = queue.claim(
            session,
            name.owner,
            name.device_key,
            name.device_classes,
            times.lease_s,
            spec_version=SPEC_VERSION,
            target=name.target,
        )
        if job is None:
            return None
        created_at = session.execute(select(Job.created_at).where(Job.id == job.id)).scalar_one()
        taken = Taken(job, run_key(database, job.id, created_at, job.attempt))
        workers.beat(session, worker_id, WorkerState.BUSY)
        tell_claimed(session, taken)
    if job.predecessor is not None:
        _end(job.predecessor, name)
    _end_runs(executor, taken.key)
    return taken


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


def give_back_unheard(database: Database, name: WorkerName) -> None:
    """Give back what an idle worker was given by a claim whose answer never came."""
    with database.write() as session:
        for job_id in queue.release_unknown(session, name.owner):
            label = format_label(Noun.JOB, job_id)
            job = session.get_one(Job, job_id)
            text = f"{label} goes back to its place: {name.owner} was cut off while it took it."
            subject = experiment_label(job.experiment_id) or label
            events.append(session, EventKind.JOB_REQUEUED, text, subject, job.campaign_id)


def tell_what_is_left(database: Database, name: WorkerName, told: set[str]) -> None:
    """Say by an event, once a worker, which waiting jobs of its device are not for it, and why.

    A job of another version is named; of jobs for another target one stands for all. `told` holds what was
    said, and is added to.
    """
    waits = (Job.state == JobState.QUEUED, Job.device_class.in_(name.device_classes))
    found = select(
        Job.id, Job.campaign_id, Job.experiment_id, sql.written_as.label("version"), Experiment.target
    ).outerjoin(Experiment, Experiment.id == Job.experiment_id)
    with database.read() as session:
        query = found.where(*waits, not_(and_(*_is_for(name)))).order_by(Job.id).limit(_MOST_LEFT)
        rows = session.execute(query).all()
    news = []
    for row in rows:
        label = format_label(Noun.JOB, row.id)
        if row.version != str(SPEC_VERSION):
            key, why = label, f"it was written as version {row.version}, and this worker runs {SPEC_VERSION}"
        else:
            key, why = row.target, f"it is for {row.target}, and this device is {name.target}"
        if key not in told:
            told.add(key)
            news.append((f"{name.owner} leaves {label} in the queue: {why}.", label, row))
    if news:
        with database.write() as session:
            for text, label, row in news:
                subject = experiment_label(row.experiment_id) or label
                events.append(session, EventKind.JOB_LEFT, text, subject, row.campaign_id)


def _is_for(name: WorkerName) -> list[ColumnElement[bool]]:
    """What holds for a job that this worker can take; a job without a version is of another one."""
    of_version = func.coalesce(sql.written_as, "") == str(SPEC_VERSION)
    return [of_version] if name.target is None else [of_version, sql.made_for(literal(name.target))]


def is_device_busy(database: Database, name: WorkerName) -> bool:
    """Whether a job runs on the worker's device, another worker's for one that is idle; reads only."""
    running = exists().where(Job.state == JobState.RUNNING, Job.device == name.device_key)
    with database.read() as session:
        return bool(session.execute(select(running)).scalar_one())


def _something_to_do(database: Database, name: WorkerName) -> bool:
    running = Job.state == JobState.RUNNING
    waits = (Job.state == JobState.QUEUED, Job.device_class.in_(name.device_classes))
    queued = exists().where(*waits, *_is_for(name))
    busy = exists().where(running, Job.device == name.device_key)
    expired = exists().where(running, Job.lease_expires_at <= now())
    with database.read() as session:
        return bool(session.execute(select(or_(and_(queued, ~busy), expired))).scalar_one())


def _end_leftovers(database: Database, executor: Executor, name: WorkerName, reaped: list[Reaped]) -> None:
    with database.read() as session:
        leftovers = queue.leftovers(session, name.host)
        ids = [each.job_id for each in reaped]
        rows = session.execute(select(Job.id, Job.created_at).where(Job.id.in_(ids)))
        created = {row.id: row.created_at for row in rows}
    for leftover in leftovers:
        _end(leftover.process, name)
        with database.write() as session:
            queue.forget_process(session, leftover)
    for each in reaped:
        # The next attempt's key: every run of the job under another one is to end.
        _end_runs(executor, run_key(database, each.job_id, created[each.job_id], each.attempt + 1))


def _end(process: BoundProcess, name: WorkerName) -> None:
    if process.host == name.host:
        end_group(ProcessGroup(process.pgid, process.started_at_s, process.kernel, process.started_ticks))


def _end_runs(executor: Executor, key: str) -> None:
    """End the runs of the job that `key` names under every other attempt, bound to the job or not."""
    prefix = key.rpartition(_SEPARATOR)[0] + _SEPARATOR
    for ref in executor.reconcile():
        if ref.startswith(prefix) and ref != key:
            executor.cancel(ref)


def tell_claimed(session: Session, taken: Taken) -> None:
    """Write what a claim means for its experiment and its hypothesis, with the events."""
    job = taken.job
    label = format_label(Noun.JOB, job.id)
    text = f"{job.owner} took {label}, attempt {job.attempt}."
    events.append(session, EventKind.JOB_CLAIMED, text, taken.subject or label, job.campaign_id)
    if job.experiment_id is None:
        return
    experiment = session.get_one(Experiment, job.experiment_id)
    experiment.state = ExperimentState.RUNNING
    experiment.stage, experiment.progress = None, None
    if experiment.hypothesis_id is not None:
        session.execute(
            update(Hypothesis)
            .where(Hypothesis.id == experiment.hypothesis_id, Hypothesis.state == HypothesisState.QUEUED)
            .values(state=HypothesisState.TESTING, state_changed_at=now(), rank=None)
            .execution_options(synchronize_session=False)
        )
    if experiment.started_at is None:
        session.flush()
        session.execute(update(Experiment).where(Experiment.id == experiment.id).values(started_at=now()))
        events.append(
            session,
            EventKind.EXPERIMENT_STARTED,
            f"{taken.subject} starts on {job.device}.",
            taken.subject,
            job.campaign_id,
        )
