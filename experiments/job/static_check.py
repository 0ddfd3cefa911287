"""The static check of a configuration: nothing is loaded, and what could not be looked at is told."""

from __future__ import annotations

from experiments.job.running_job import RunningJob
from experiments.job.staging import StageTold
from experiments.job.task_answers import tasks_of_job
from experiments.measurement.evidence import UNCHECKED
from experiments.measurement.plan import Workload
from experiments.space.configuration import Configuration


def check_static(job: RunningJob, told: StageTold, configuration: Configuration, workload: Workload) -> None:
    """Ask the engine whether the configuration can run this workload; raises `Infeasible` where it can't, and
    first of all where the device is lost or somebody else's: what is free there would not be what it has."""
    unwatched = job.guard.unwatched()
    job.guard.before_launches()
    tasks = tasks_of_job(job, workload)
    context = max(workload.context_tokens, 0 if tasks is None else tasks.context_tokens(workload))
    unseen = job.engine.check(configuration, job.context.checkpoint, job.spec.device, context)
    for sentence in filter(None, (unwatched, unseen)):
        before = told.detail.get(UNCHECKED)
        said = [each for each in before if isinstance(each, str)] if isinstance(before, list) else []
        if sentence not in said:
            told.detail = {**told.detail, UNCHECKED: [*said, sentence]}
