"""The runs of an experiment, for whoever reads their logs: one an attempt, by the key of its executor."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import select

from db.models import Job
from db.remote_runs import keys_of
from db.session import Database
from db.states import FINAL_JOB_STATES
from experiments.worker.claiming import run_key


@dataclass(frozen=True)
class ExperimentRuns:
    """`keys` by attempt, the first one first, none while the job waits for a worker; `ended`: no more will
    come; `host` is the machine of the last one."""

    keys: tuple[str, ...]
    ended: bool
    host: str | None


def runs_of(database: Database, experiment_id: int) -> ExperimentRuns | None:
    """The runs of the experiment's job; None for an experiment that no job was made for."""
    asked = select(Job.id, Job.created_at, Job.attempt, Job.state, Job.device)
    with database.read() as session:
        job = session.execute(asked.where(Job.experiment_id == experiment_id).order_by(Job.id.desc())).first()
        if job is None:
            return None
        remote = keys_of(session, job.id)
    # The attempts of a remote job may have had a run of an earlier one in common.
    keys = remote or [run_key(database, job.id, job.created_at, number + 1) for number in range(job.attempt)]
    host = job.device.partition("/")[0] if job.device else None
    return ExperimentRuns(tuple(keys), job.state in FINAL_JOB_STATES, host)
