"""The A/A job: two fresh launches of one configuration, timed against each other as a test times its arms.

The seats are those of a test: arm `control` is asked for first in every second pair, both load at the same
time, both are warmed up, and their blocks alternate A B B A. With `alone`, and where launches are in turn,
one launch is ended before the other is started, so that what is up beside a launch can be told from the
launch itself.
"""

from __future__ import annotations

from contextlib import nullcontext

from configs.errors import AutoinferError
from experiments.engines.port import Infeasible
from experiments.job.aa_beside import Beside, series_mark
from experiments.job.checkpoints import prepare_checkpoint
from experiments.job.launching import launches, open_launches
from experiments.job.open_launch import ArmInfeasible, OpenLaunch, Wanted, close
from experiments.job.running_job import RunningJob
from experiments.job.schedule import abba, seats
from experiments.job.spec import AaJob
from experiments.job.staging import StageTold, stage
from experiments.job.static_check import check_static
from experiments.measurement.evidence import Arm, Stage
from experiments.space.configuration import Configuration


def run_aa(job: RunningJob, spec: AaJob) -> None:
    """Run the job; raises `Infeasible` or `ArmInfeasible` when the configuration can't run, `AutoinferError`
    when the command that was to run beside it did not."""
    configuration = Configuration.of(spec.configuration)
    with stage(job, Stage.STATIC, 1, "check the configuration") as told:
        check_static(job, told, configuration, spec.workload)
        told.advance()
    checkpoint, _ = prepare_checkpoint(job, configuration)
    # the place in the series, not the seed, decides who is first and leads: every second pair each
    order = abba(0, spec.pair, 0, spec.blocks)
    seated = [Wanted(arm, 0, configuration, checkpoint) for arm in seats(0, spec.pair)]
    text = f"time A/A pair {spec.pair + 1}"
    beside = (
        Beside(spec.beside, job.context.folder, series_mark(job.context.folder.parent, spec.campaign_id))
        if spec.beside
        else None
    )
    with beside or nullcontext(), stage(job, Stage.NOISE, 2 * spec.blocks, text) as told:
        told.detail = {"pair": spec.pair, "alone": spec.alone, "beside": list(spec.beside)}
        try:
            if spec.in_turn:
                _one_after_the_other(job, spec, seated, order, beside, told)
            else:
                _side_by_side(job, spec, seated, order, beside, told)
        except (Infeasible, ArmInfeasible):
            _check(beside)  # what it did to the launch is its own fault only while it runs
            raise


def _side_by_side(
    job: RunningJob,
    spec: AaJob,
    seated: list[Wanted],
    order: tuple[Arm, ...],
    beside: Beside | None,
    told: StageTold,
) -> None:
    with launches(job, Stage.NOISE, seated) as opened:
        for launch in opened:
            launch.warm_up(spec.workload)
        _check(beside)
        up = {launch.wanted.arm: launch for launch in opened}
        counts = dict.fromkeys(Arm, 0)
        for position, arm in enumerate(order):
            _time(job, spec, up[arm], counts[arm], position, told)
            counts[arm] += 1
        _check(beside)


def _one_after_the_other(
    job: RunningJob,
    spec: AaJob,
    seated: list[Wanted],
    order: tuple[Arm, ...],
    beside: Beside | None,
    told: StageTold,
) -> None:
    by_arm = {seat.arm: seat for seat in seated}
    position = 0
    for arm in dict.fromkeys(order):
        opened, failed = open_launches(job, Stage.NOISE, [by_arm[arm]])
        try:
            if failed:
                raise failed[0]
            opened[0].warm_up(spec.workload)
            for block in range(spec.blocks):
                _time(job, spec, opened[0], block, position, told)
                position += 1
        finally:
            close(opened)
        _check(beside)


def _time(
    job: RunningJob, spec: AaJob, launch: OpenLaunch, block: int, position: int, told: StageTold
) -> None:
    requests = job.context.material.requests(spec.workload, spec.seed, spec.prompts, block)
    launch.time_block(block, position, requests)
    told.advance()


def _check(beside: Beside | None) -> None:
    ended = None if beside is None else beside.ended()
    if ended is not None:
        raise AutoinferError(ended, "Give --beside a command that goes on until it is ended.")
