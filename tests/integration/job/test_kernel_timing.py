"""Kernels are timed before anything is loaded, kept as an artifact, and a timing that fails stops nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from experiments.engines.kernel_timings import KernelTimings
from experiments.engines.port import DEVICE_LOST, Infeasible
from experiments.job.kernel_timing import LOG_NAME, TIMINGS, TIMINGS_KIND, TIMINGS_NAME
from experiments.job.longest import stages_of
from experiments.job.result import JobResult, StageRecord
from experiments.job.spec import job_data, parse_job
from experiments.measurement.evidence import Json, Stage
from experiments.space.configuration import Configuration
from tests.integration.job.running import Run, run
from tests.recorded.kernel_timings import recorded
from tests.simulated.engine import SimulatedEngine
from tests.simulated.specs import CONTROL, a_baseline_job

__all__ = ["run"]

KERNELS = ({"quantization.bits": 4, "serving.linear_backend": "auto"},)


class TimesKernels(SimulatedEngine):
    """Gives recorded timings, or what it is told to."""

    def __init__(self, answer: Callable[[], KernelTimings] = recorded) -> None:
        super().__init__()
        self._answer = answer
        self.asked: list[tuple[Sequence[Configuration], int, Path]] = []

    def time_kernels(
        self,
        configurations: Sequence[Configuration],
        checkpoint: Path,
        device: str,
        rows: int,
        log_path: Path,
        cache_dir: Path,
        tell: Callable[[int, int, str], None],
    ) -> KernelTimings:
        self.asked.append((configurations, rows, log_path))
        tell(0, 1, "weights of 16 bits")
        return self._answer()


def of(result: JobResult) -> StageRecord:
    return next(each for each in result.stages if each.stage is Stage.KERNELS)


def test_kernels_are_timed_once_before_the_sweep_and_kept_with_their_raw_times(run: Run) -> None:
    spec, engine = a_baseline_job((CONTROL,), kernels=KERNELS), TimesKernels()
    first, second = (run(spec, engine=engine) for _ in range(2))
    assert [each.stage for each in first.stages][:3] == [Stage.STATIC, Stage.KERNELS, Stage.SWEEP]
    assert (of(first).outcome, of(second).outcome) == ("done", "reused")
    [(configurations, rows, log)] = engine.asked
    assert ([dict(each) for each in configurations], rows, log.name) == ([*KERNELS], 1, LOG_NAME)
    assert of(first).detail[TIMINGS] == json.loads(json.dumps(recorded().data()))
    assert of(first).detail == of(second).detail
    kept = next(each for each in first.artifacts if each.kind == TIMINGS_KIND)
    data = json.loads((Path(kept.path) / TIMINGS_NAME).read_text(encoding="utf-8"))
    assert KernelTimings.of_data(data) == recorded()


@pytest.mark.parametrize("kernels", [(), KERNELS])
def test_nothing_is_timed_where_it_is_not_asked_for_or_the_engine_can_not(
    run: Run, kernels: tuple[dict[str, Json], ...]
) -> None:
    engine = SimulatedEngine() if kernels else TimesKernels()
    result = run(a_baseline_job((CONTROL,), kernels=kernels), engine=engine)
    assert Stage.KERNELS not in {each.stage for each in result.stages}
    assert result.chosen == dict(CONTROL)


def test_a_timing_that_fails_is_told_and_the_baseline_goes_on(run: Run) -> None:
    def fail() -> KernelTimings:
        raise Infeasible("crashed", "No module named 'torch'.")

    result = run(a_baseline_job((CONTROL,), kernels=KERNELS), engine=TimesKernels(fail))
    assert (of(result).outcome, of(result).detail["cause"]) == ("failed", "No module named 'torch'.")
    assert (result.failure, result.chosen) == (None, dict(CONTROL))


def test_a_device_that_is_lost_meanwhile_is_to_blame_and_ends_the_job(run: Run) -> None:
    def lose() -> KernelTimings:
        raise Infeasible(DEVICE_LOST, "The GPU is lost.")

    result = run(a_baseline_job((CONTROL,), kernels=KERNELS), engine=TimesKernels(lose))
    assert result.failure is not None
    assert result.failure.kind == DEVICE_LOST


def test_what_a_limit_cut_off_is_told_and_timed_anew_by_the_next_job(run: Run) -> None:
    spec = a_baseline_job((CONTROL,), kernels=KERNELS)
    some = KernelTimings(
        1, "by hand", recorded().plain, recorded().packed[:1], cut_off="The limit was reached."
    )
    first = run(spec, engine=TimesKernels(lambda: some))
    assert of(first).outcome == "done"
    assert of(first).detail == {TIMINGS: json.loads(json.dumps(some.data()))}
    assert TIMINGS_KIND not in {each.kind for each in first.artifacts}
    assert of(run(spec, engine=TimesKernels())).outcome == "done"


def test_a_job_that_times_no_kernels_has_neither_the_stage_nor_a_field_for_it() -> None:
    without, timed = a_baseline_job((CONTROL,)), a_baseline_job((CONTROL,), kernels=KERNELS)
    assert Stage.KERNELS not in stages_of(without)
    assert Stage.KERNELS in stages_of(timed)
    assert "kernels" not in job_data(without)
    assert parse_job(job_data(timed)) == timed
