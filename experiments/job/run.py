"""The runner of a job: interprets what spec and judge ask for, and records everything as it happens."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from configs.errors import AutoinferError
from experiments.disk import failure_kind
from experiments.engines.port import Engine, Infeasible
from experiments.job.aa import run_aa
from experiments.job.baseline import run_baseline
from experiments.job.blame import put_down
from experiments.job.build import run_build
from experiments.job.comparison import run_test
from experiments.job.context import JobContext, Material
from experiments.job.device_guard import RETURN_LIMIT_S, DeviceGuard
from experiments.job.limits import StageLimits, asked_to_end
from experiments.job.open_launch import ArmInfeasible
from experiments.job.records import Records
from experiments.job.result import JobResult
from experiments.job.running_job import RunningJob
from experiments.job.seal import broken_seal, other_judge, other_texts
from experiments.job.spec import AaJob, AnyJob, BaselineJob, BuildJob, TestJob
from experiments.job.versions_here import OWN_PACKAGES, versions_here
from experiments.measurement.judging import Judge
from experiments.space.configuration import Configuration


def run_job(
    spec: AnyJob,
    context: JobContext,
    engine: Engine,
    judge: Judge,
    records: Records,
    on_stuck: Callable[[Infeasible], None] | None = None,
    guard: DeviceGuard | None = None,
) -> JobResult:
    """Run a job to its end and return what its records say.

    A configuration that can't run gives a result with a failure, never an exception; a fault that is no
    configuration's (a full disk, a missing permission, a broken judge) is recorded as an error and raised as
    `AutoinferError`. `on_stuck` is called when a stage outlives its limit and can't be ended, from another
    thread, or when what it left behind is not gone. `guard` watches the spec's device, None for the driver's
    own answers. However the job ends, what its launches held of a GPU is waited for and recorded; what is not
    given back is said and fails nothing.
    """
    started = time.monotonic()
    records.started(spec.version)
    guard = guard or DeviceGuard(spec.device)

    limits = StageLimits(
        context.limits_s,
        on_stuck and _telling_memory(on_stuck, guard, records),
        asked=partial(asked_to_end, context.folder),
    )
    try:
        with _loading_ahead(engine) as ahead:
            job = RunningJob(spec, context, ahead, records, limits, guard)
            if isinstance(spec, BaselineJob):
                run_baseline(job, spec)
            elif isinstance(spec, AaJob):
                run_aa(job, spec)
            elif isinstance(spec, BuildJob):
                run_build(job, spec)
            else:
                _check_seal(spec, judge, context.material)
                run_test(job, spec, judge)
    except ArmInfeasible as failed:
        _record(records, spec, failed.reason)
    except Infeasible as reason:
        _record(records, spec, reason)
    except AutoinferError as error:
        records.error(str(error), failure_kind(error))
        raise
    finally:
        _tell_memory(guard, records)
    records.end(time.monotonic() - started)
    return records.fold.result()


def _loading_ahead(engine: Engine) -> AbstractContextManager[Engine]:
    """The engine for the time of a job, with launches' processes begun ahead where it can do that."""
    ahead: Callable[[], AbstractContextManager[Engine]] | None = getattr(engine, "loading_ahead", None)
    return nullcontext(engine) if ahead is None else ahead()


def _tell_memory(guard: DeviceGuard, records: Records, limit_s: float = RETURN_LIMIT_S) -> None:
    """Record what of a GPU the job's launches held, once it is given back, at most so many seconds later."""
    held = guard.returned(limit_s)
    if held is not None:
        records.memory(held, guard.device)


def _telling_memory(
    on_stuck: Callable[[Infeasible], None], guard: DeviceGuard, records: Records
) -> Callable[[Infeasible], None]:
    """The same, with what was held of a GPU recorded before: the stage's processes were killed a while ago,
    and nothing is waited for where something is stuck."""

    def stuck(reason: Infeasible) -> None:
        _tell_memory(guard, records, 0.0)
        on_stuck(reason)

    return stuck


def _record(records: Records, spec: AnyJob, reason: Infeasible) -> None:
    """Record why the job's configuration can't run; of a test that is its candidate, or, told as such, its
    control. Where no launch measured anything, so that none tells versions, the engine's here are told."""
    cause = put_down(reason, Configuration.of(spec.candidate)) if isinstance(spec, TestJob) else reason.cause
    told = bool(records.fold.launches())
    versions = {} if told else versions_here(spec.engine, spec.device, OWN_PACKAGES)
    records.failure(reason.kind, cause, reason.blames, versions)


def _check_seal(spec: TestJob, judge: Judge, material: Material) -> None:
    """Raise `AutoinferError` for a test that is not what was preregistered, before its first sample."""
    broken = broken_seal(spec) or other_judge(spec, judge) or other_texts(spec, material.texts())
    if broken is not None:
        raise AutoinferError(
            f"The test is not what was preregistered: {broken}.", "Its hypothesis has to be tested anew."
        )
