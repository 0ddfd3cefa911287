"""The build job: the checkpoint of one configuration, for tests that come later. It measures nothing."""

from __future__ import annotations

from experiments.job.checkpoints import prepare_checkpoint
from experiments.job.running_job import RunningJob
from experiments.job.spec import BuildJob
from experiments.job.staging import stage
from experiments.job.static_check import check_static
from experiments.measurement.evidence import Stage
from experiments.space.configuration import Configuration


def run_build(job: RunningJob, spec: BuildJob) -> None:
    """Run the job; raises `Infeasible` when the configuration can't run or its checkpoint can't be built."""
    configuration = Configuration.of(spec.configuration)
    with stage(job, Stage.STATIC, 1, "check the configuration") as told:
        check_static(job, told, configuration, spec.workload)
        told.advance()
    prepare_checkpoint(job, configuration)
