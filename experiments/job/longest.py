"""How long a job may take at most: the limits of the stages that it can come to. Pure.

A rented machine is given this as its time limit, and its price is bounded by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from experiments.job.spec import AaJob, AnyJob, BaselineJob, Knobs
from experiments.measurement.evidence import Stage

BUILDS = frozenset({Stage.PRUNE, Stage.QUANTIZE, Stage.DRAFT})
"""Stages that make a checkpoint or a drafter, for configurations that ask for one."""

BUILT_BY = ("pruning.method", "quantization.method", "drafting.method")
"""Knobs that ask for one."""

OF_TESTS = frozenset({Stage.SCREEN, Stage.QUICK, Stage.FULL, Stage.VALIDATION})
OF_BASELINES = frozenset({Stage.SWEEP, Stage.NOISE})


def stages_of(spec: AnyJob) -> frozenset[Stage]:
    """The stages that a job can come to: a baseline makes no test, a test no sweep, and what changes no
    weights and drafts nothing builds nothing."""
    left_out: frozenset[Stage] = frozenset()
    if not any(_asks(each) for each in _configurations(spec)):
        left_out |= BUILDS
    if isinstance(spec, BaselineJob):
        left_out |= OF_TESTS
    elif not isinstance(spec, AaJob):
        left_out |= OF_BASELINES
    return frozenset(Stage) - left_out


def longest_s(spec: AnyJob, limits_s: Mapping[Stage, float]) -> float:
    """The sum of the limits of its stages, seconds."""
    return sum(limits_s.get(stage, 0.0) for stage in stages_of(spec))


def _configurations(spec: AnyJob) -> Iterable[Knobs]:
    if isinstance(spec, BaselineJob):
        return (*spec.sweep, spec.naive)
    if isinstance(spec, AaJob):
        return (spec.configuration,)
    return (spec.control, spec.candidate, *(() if spec.reference is None else (spec.reference,)))


def _asks(knobs: Knobs) -> bool:
    return any(knobs.get(each, "none") != "none" for each in BUILT_BY)
