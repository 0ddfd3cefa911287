"""How long a job may take at most: the limits of the stages that it can come to. Pure.

A rented machine is given this as its time limit, and its price is bounded by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from configs.quantities import format_duration
from experiments.job.spec import AaJob, AnyJob, BaselineJob, BuildJob, Knobs, TestJob
from experiments.measurement.evidence import Stage

BUILDS = frozenset({Stage.PRUNE, Stage.QUANTIZE, Stage.DRAFT})
"""Stages that make a checkpoint or a drafter, for configurations that ask for one."""

BUILT_BY: Mapping[str, Stage] = {
    "pruning.method": Stage.PRUNE,
    "quantization.method": Stage.QUANTIZE,
    "drafting.method": Stage.DRAFT,
}
"""Knobs that ask for one, and the stage that makes it."""

OF_TESTS = frozenset({Stage.SCREEN, Stage.QUICK, Stage.FULL, Stage.VALIDATION})
OF_BASELINES = frozenset({Stage.SWEEP, Stage.NOISE})


def stages_of(spec: AnyJob) -> frozenset[Stage]:
    """The stages that a job can come to: a baseline makes no test, a test no sweep, what changes no weights
    and drafts nothing builds nothing, and what asks for no further workload measures none."""
    if isinstance(spec, BuildJob):
        return frozenset({Stage.STATIC}) | (BUILDS if _asks(spec.configuration) else frozenset())
    left_out: frozenset[Stage] = frozenset()
    if not any(_asks(each) for each in _configurations(spec)):
        left_out |= BUILDS
    if not (isinstance(spec, BaselineJob) and spec.kernels):
        left_out |= {Stage.KERNELS}
    if not (isinstance(spec, TestJob) and spec.further_here):
        left_out |= {Stage.FURTHER}
    if isinstance(spec, BaselineJob):
        left_out |= OF_TESTS
    elif not isinstance(spec, AaJob):
        left_out |= OF_BASELINES
    return frozenset(Stage) - left_out


def longest_s(spec: AnyJob, limits_s: Mapping[Stage, float]) -> float:
    """The sum of the limits of its stages, seconds."""
    return sum(limits_s.get(stage, 0.0) for stage in stages_of(spec))


def builds_s(spec: AnyJob, limits_s: Mapping[Stage, float]) -> float:
    """The sum of the limits of the stages that make what its configurations ask for, seconds."""
    asked = {
        stage
        for knobs in _configurations(spec)
        for knob, stage in BUILT_BY.items()
        if knobs.get(knob, "none") != "none"
    }
    return sum(limits_s.get(stage, 0.0) for stage in asked)


def whole_limit_s(spec: AnyJob, limits_s: Mapping[Stage, float], limit_s: float | None) -> float:
    """The most seconds of a whole job: the sum of the limits of its stages, or `limit_s` if that is less."""
    longest = longest_s(spec, limits_s)
    return longest if limit_s is None else min(longest, limit_s)


def limit_sentence(limit_s: float) -> str:
    """What is said of a job that was ended at the limit of the whole of it."""
    limit = format_duration(round(limit_s))
    return (
        f"The job was ended at its limit of {limit}, which bounds what it may cost: nothing is said of "
        "what it tested."
    )


def _configurations(spec: AnyJob) -> Iterable[Knobs]:
    if isinstance(spec, BaselineJob):
        return (*spec.sweep, spec.naive)
    if isinstance(spec, AaJob | BuildJob):
        return (spec.configuration,)
    return (spec.control, spec.candidate, *(() if spec.reference is None else (spec.reference,)))


def _asks(knobs: Knobs) -> bool:
    return any(knobs.get(each, "none") != "none" for each in BUILT_BY)
