"""Kernels are timed before anything is loaded, kept as an artifact, and a timing that fails stops nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from experiments.engines.kernel_timings import KernelTiming, KernelTimings
from experiments.engines.port import DEVICE_LOST, Infeasible
from experiments.job.kernel_timing import GOES_ON, LOG_NAME, TIMINGS, TIMINGS_KIND, TIMINGS_NAME
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
        self.known: list[KernelTimings | None] = []

    def time_kernels(
        self,
        configurations: Sequence[Configuration],
        checkpoint: Path,
        device: str,
        rows: int,
        log_path: Path,
        cache_dir: Path,
        tell: Callable[[int, int, str], None],
        known: KernelTimings | None,
    ) -> KernelTimings:
        self.asked.append((configurations, rows, log_path))
        self.known.append(known)
        tell(0, 1, "weights of 16 bits")
        return self._answer()


def of(result: JobResult) -> StageRecord:
    return next(each for each in result.stages if each.stage is Stage.KERNELS)


def kept(result: JobResult) -> list[KernelTimings]:
    """The timings that a job used or made, by what their artifacts hold."""
    paths = [Path(each.path) for each in result.artifacts if each.kind == TIMINGS_KIND]
    return [KernelTimings.of_data(json.loads((path / TIMINGS_NAME).read_bytes())) for path in paths]


def cut(done: int, rounds: int = 1) -> KernelTimings:
    """The recorded timings as they are after so many of the packed ones, when a limit cut off the rest."""

    def left(timing: KernelTiming) -> KernelTiming:
        parts = (replace(each, us=None, untimed="The limit.", left=True) for each in timing.parts)
        return replace(timing, parts=tuple(parts))

    told = recorded()
    packed = (*told.packed[:done], *map(left, told.packed[done:]))
    return replace(told, packed=packed, cut_off="The limit of 1 min 15 s was reached.", rounds=rounds)


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


def test_what_a_limit_cut_off_is_kept_and_the_next_job_goes_on_from_there(run: Run) -> None:
    spec = a_baseline_job((CONTROL,), kernels=KERNELS)
    some, more, all_of_it = cut(2), cut(4, rounds=2), replace(recorded(), rounds=3)
    engines = [TimesKernels(partial(copy, each)) for each in (some, more, all_of_it, recorded())]
    results = [run(spec, engine=engine) for engine in engines]
    first, second = (replace(each, cut_off=f"{each.cut_off} {GOES_ON}") for each in (some, more))
    assert [engine.known for engine in engines] == [[None], [first], [second], []]
    assert [of(each).outcome for each in results] == ["done", "done", "done", "reused"]
    assert [kept(each)[-1] for each in results] == [first, second, all_of_it, all_of_it]
    digests = [of(each).detail["artifact"] for each in results]
    assert len(set(digests)) == 3
    chain = [each.digest for each in results[3].artifacts if each.kind == TIMINGS_KIND]
    assert chain == digests[:3]
    made_of = {each.digest: each.inputs["parents"] for each in results[3].artifacts}
    assert [made_of[digest] for digest in chain] == [[], [digests[0]], [digests[1]]]


def test_a_limit_that_is_reached_again_with_nothing_more_timed_is_the_last(run: Run) -> None:
    spec, engine = a_baseline_job((CONTROL,), kernels=KERNELS), TimesKernels(lambda: cut(2))
    results = [run(spec, engine=engine) for _ in range(3)]
    assert len(engine.asked) == 2
    assert [of(each).outcome for each in results] == ["done", "done", "reused"]
    last = kept(results[2])[-1]
    assert not last.is_unfinished
    assert last.packed[:2] == recorded().packed[:2]
    assert "not tried again" in str(last.packed[2].untimed)
    assert last.packed[2].untimed == last.cut_off


def test_going_on_that_fails_leaves_what_was_timed_and_is_tried_again(run: Run) -> None:
    def fail() -> KernelTimings:
        raise Infeasible("crashed", "No module named 'torch'.")

    spec = a_baseline_job((CONTROL,), kernels=KERNELS)
    first = run(spec, engine=TimesKernels(lambda: cut(2)))
    failed = run(spec, engine=TimesKernels(fail))
    assert of(failed).outcome == "failed"
    assert of(failed).detail == {**of(first).detail, "kind": "crashed", "cause": "No module named 'torch'."}
    assert failed.chosen == dict(CONTROL)
    again = TimesKernels()
    assert of(run(spec, engine=again)).outcome == "done"
    assert len(again.asked) == 1


def test_a_job_that_times_no_kernels_has_neither_the_stage_nor_a_field_for_it() -> None:
    without, timed = a_baseline_job((CONTROL,)), a_baseline_job((CONTROL,), kernels=KERNELS)
    assert Stage.KERNELS not in stages_of(without)
    assert Stage.KERNELS in stages_of(timed)
    assert "kernels" not in job_data(without)
    assert parse_job(job_data(timed)) == timed
