"""The baseline job: time kernels alone, sweep, choose, measure noise, evaluate, profile.

The sweep's launches are all up at once and timed one at a time, round robin by blocks, so that the machine's
drift favours none. Where memory has no room for so many (`spec.at_once`), each is loaded, timed and ended
before the next one, and so are the A/A launches, of which the last is evaluated and profiled. The
configuration with the lowest median of the metric is chosen. Its A/A launches form one window of the noise
profile; the same launches are then evaluated and, last, profiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from experiments.engines.port import DEVICE_FAULTS, Infeasible
from experiments.job.blame import BLAMES, put_down
from experiments.job.checkpoints import prepare_checkpoint
from experiments.job.evaluation import evaluate_reference, record_reference
from experiments.job.kernel_timing import time_kernels
from experiments.job.launching import open_launches
from experiments.job.open_launch import ArmInfeasible, OpenLaunch, Wanted, close
from experiments.job.profiling import profile_baseline
from experiments.job.running_job import RunningJob
from experiments.job.schedule import round_robin
from experiments.job.spec import BaselineJob
from experiments.job.staging import StageTold, stage
from experiments.job.static_check import check_static
from experiments.measurement.evidence import HIGHER_IS_BETTER, Arm, Json, LaunchRecord, Metric, Stage
from experiments.measurement.timed import typical
from experiments.space.configuration import Configuration

NAIVE_FAILED = "naive_failed"
"""In the detail of the static check or the sweep: why the engine's own default is no choice."""

FAILED = "failed"
"""In the same: each configuration that could not run (`configuration`, `kind`, `cause`, `blames`)."""


def run_baseline(job: RunningJob, spec: BaselineJob) -> None:
    """Run the job; raises `Infeasible` or `ArmInfeasible` when no configuration can be measured."""
    with stage(job, Stage.STATIC, len(spec.sweep), "check the configurations of the sweep") as told:
        feasible = _check(job, spec, told)
    together = len(feasible) if _all_fit(spec, len(feasible)) else 1
    time_kernels(job, spec)
    wanted = [
        Wanted(Arm.CONTROL, index, configuration, prepare_checkpoint(job, configuration)[0])
        for index, configuration in feasible
    ]
    if together == len(wanted) and _all_fit(spec, spec.noise_launches):
        job.expect(spec.noise_launches)
    planned = len(wanted) * spec.sweep_blocks
    with stage(job, Stage.SWEEP, planned, "time the configurations of the sweep") as told:
        _sweep(job, spec, wanted, told)
    sweep = [configuration for _, configuration in feasible]
    chosen = choose(job.records.fold.launches(), sweep, spec.metric, spec.sweep_blocks)
    job.records.chosen(dict(chosen))
    _measure_chosen(job, spec, chosen)


def choose(
    launches: Sequence[LaunchRecord], sweep: Sequence[Configuration], metric: Metric, blocks: int
) -> Configuration:
    """Return the configuration of the sweep with the best median of `metric`; the earlier wins a tie.

    One that died before all its `blocks` were timed is no choice. Raises `Infeasible` when none is left.
    """
    took: dict[str, float] = {}
    for launch in launches:
        complete = len({sample.block for sample in launch.samples}) == blocks
        value = typical(launch, metric) if launch.stage is Stage.SWEEP and complete else None
        if value is not None:
            took[launch.configuration_digest] = value
    sign = -1 if metric in HIGHER_IS_BETTER else 1
    measured = [configuration for configuration in sweep if configuration.digest in took]
    if not measured:
        raise Infeasible("crashed", "No configuration of the sweep could be measured.")
    return min(measured, key=lambda each: sign * took[each.digest])


def _check(job: RunningJob, spec: BaselineJob, told: StageTold) -> list[tuple[int, Configuration]]:
    feasible: list[tuple[int, Configuration]] = []
    refused: list[tuple[Configuration, Infeasible]] = []
    naive_failed: dict[str, Json] = {} if spec.naive_refused is None else {NAIVE_FAILED: spec.naive_refused}
    for index, configuration in enumerate(map(Configuration.of, spec.sweep)):
        try:
            check_static(job, told, configuration, spec.workload)
            feasible.append((index, configuration))
        except Infeasible as reason:
            if reason.kind in DEVICE_FAULTS:
                raise
            refused.append((configuration, reason))
        told.advance()
    told.detail = {
        **told.detail,
        "refused": [reason.cause for _, reason in refused],
        **naive_failed,
        **_told_failures(spec, refused),
    }
    if not feasible:
        raise refused[0][1]
    return feasible


def _sweep(job: RunningJob, spec: BaselineJob, wanted: Sequence[Wanted], told: StageTold) -> None:
    dropped: list[tuple[Configuration, ArmInfeasible]] = []
    groups = [wanted] if _all_fit(spec, len(wanted)) else [[each] for each in wanted]
    try:
        for group in groups:
            _sweep_group(job, spec, group, told, dropped)
    finally:
        causes: list[Json] = [each.reason.cause for _, each in dropped]
        failures = [(configuration, each.reason) for configuration, each in dropped]
        told.detail = {**told.detail, "dropped": causes, **_told_failures(spec, failures)}
    if len(dropped) == len(wanted):
        raise dropped[0][1]


def _sweep_group(
    job: RunningJob,
    spec: BaselineJob,
    wanted: Sequence[Wanted],
    told: StageTold,
    dropped: list[tuple[Configuration, ArmInfeasible]],
) -> None:
    """Time launches that are up at once; what can't run is added to `dropped`."""
    opened, failed = open_launches(job, Stage.SWEEP, wanted)
    dropped += [(wanted[each.place].configuration, each) for each in failed]
    up = {launch.wanted.index: launch for launch in opened}
    died: list[ArmInfeasible] = []
    try:
        told.begin_timing()
        for index in list(up):
            _or_drop(job, up, index, died, lambda launch: launch.warm_up(spec.workload))
        if up:
            _round_robin(job, spec, up, spec.sweep_blocks, told, died)
    finally:
        of_index = {each.index: each.configuration for each in wanted}
        dropped += [(of_index[each.place], each) for each in died]
        close(opened)


def _all_fit(spec: BaselineJob, launches: int) -> bool:
    return spec.at_once is None or launches <= spec.at_once


def _told_failures(
    spec: BaselineJob, failures: Sequence[tuple[Configuration, Infeasible]]
) -> dict[str, Json]:
    """What could not run, as the detail of a stage; empty where all did. The engine's own default also by
    its name."""
    if not failures:
        return {}
    told: list[Json] = [
        {
            "configuration": dict(configuration),
            "kind": reason.kind,
            "cause": put_down(reason, configuration),
            BLAMES: dict(reason.blames),
        }
        for configuration, reason in failures
    ]
    naive = Configuration.of(spec.naive)
    of_naive = [put_down(reason, each) for each, reason in failures if each == naive]
    return {FAILED: told, **({NAIVE_FAILED: of_naive[0]} if of_naive else {})}


def _measure_chosen(job: RunningJob, spec: BaselineJob, chosen: Configuration) -> None:
    checkpoint, _ = prepare_checkpoint(job, chosen)
    wanted = [Wanted(Arm.CONTROL, index, chosen, checkpoint) for index in range(spec.noise_launches)]
    planned = spec.noise_launches * spec.noise_blocks
    if not _all_fit(spec, spec.noise_launches):
        _measure_in_turn(job, spec, chosen, wanted)
        return
    job.expect(0)  # those are the last
    with stage(job, Stage.NOISE, planned, "time fresh launches of the baseline against each other") as told:
        opened, failed = open_launches(job, Stage.NOISE, wanted)
        try:
            if failed:
                raise failed[0]
            for launch in opened:
                launch.warm_up(spec.workload)
            up = {launch.wanted.index: launch for launch in opened}
            _round_robin(job, spec, up, spec.noise_blocks, told, None)
        except BaseException:
            close(opened)
            raise
    try:
        close(opened[2:])
        _evaluate(job, spec, chosen, opened[0])
        profile_baseline(job, chosen, spec.workload, opened[1])
    finally:
        close(opened)


def _measure_in_turn(
    job: RunningJob, spec: BaselineJob, chosen: Configuration, wanted: Sequence[Wanted]
) -> None:
    """The same with one launch up at a time; the last is evaluated and profiled."""
    planned = len(wanted) * spec.noise_blocks
    opened: list[OpenLaunch] = []
    try:
        text = "time fresh launches of the baseline one after the other"
        with stage(job, Stage.NOISE, planned, text) as told:
            position = 0
            for each in wanted:
                close(opened)
                opened, failed = open_launches(job, Stage.NOISE, [each])
                if failed:
                    raise failed[0]
                opened[0].warm_up(spec.workload)
                for block in range(spec.noise_blocks):
                    requests = job.context.material.requests(spec.workload, spec.seed, 0, block)
                    opened[0].time_block(block, position, requests)
                    position += 1
                    told.advance()
        _evaluate(job, spec, chosen, opened[0])
        profile_baseline(job, chosen, spec.workload, opened[0])
    finally:
        close(opened)


def _evaluate(job: RunningJob, spec: BaselineJob, chosen: Configuration, up: OpenLaunch) -> None:
    """Score the baseline; nothing of a shape, whose quality is not known."""
    if job.context.latency_only:
        return
    with stage(job, Stage.EVALUATE, 1, "evaluate the baseline") as told:
        evaluation = evaluate_reference(job, chosen, spec.workload, lambda: up)
        record_reference(job, chosen, evaluation)
        told.outcome = "done" if evaluation.artifact.built else "reused"
        told.advance()


def _round_robin(
    job: RunningJob,
    spec: BaselineJob,
    up: dict[int, OpenLaunch],
    blocks: int,
    told: StageTold,
    dropped: list[ArmInfeasible] | None,
) -> None:
    """Time the launches block by block; one that dies is dropped, or, without a list for it, ends the job."""
    places = list(up)
    position = 0
    for block, order in enumerate(round_robin(spec.seed, len(places), blocks)):
        requests = job.context.material.requests(spec.workload, spec.seed, 0, block)
        for place in order:
            index = places[place]
            if index in up:
                here = position

                def time_block(launch: OpenLaunch) -> None:
                    launch.time_block(block, here, requests)  # noqa: B023 - called before the loop goes on

                _or_drop(job, up, index, dropped, time_block)
            position += 1
            told.advance()


def _or_drop(
    job: RunningJob,
    up: dict[int, OpenLaunch],
    index: int,
    dropped: list[ArmInfeasible] | None,
    act: Callable[[OpenLaunch], None],
) -> None:
    try:
        act(up[index])
    except ArmInfeasible as reason:
        if dropped is None or reason.reason.kind in DEVICE_FAULTS:
            raise
        job.limits.check()  # a stage whose time is up has ended every process
        dropped.append(reason)
        del up[index]
