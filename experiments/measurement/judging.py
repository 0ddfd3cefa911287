"""The judge's port: what an experiment asks while it runs, and what it is told at the end.

The runner of an experiment interprets steps and knows no statistics; a judge decides steps and runs
nothing. Both functions are pure: equal evidence gives an equal answer, so that a verdict can be computed
again from the stored samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from experiments.measurement.evidence import Arm, Evidence, Json, Stage
from experiments.measurement.plan import StoppingPlan

BY_CLOCK = "by_clock"
"""In a verdict's details: whether `spent_s` and `planned_s` are seconds on the clock. Where it is missing, as
in verdicts from before it was told, launches that load side by side count each."""


class Outcome(StrEnum):
    """What a verdict may say of a hypothesis."""

    SUPPORTED = "supported"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"
    CONFOUNDED = "confounded"
    INFEASIBLE = "infeasible"


@dataclass(frozen=True)
class MeasurePair:
    """Start one fresh launch an arm and measure `blocks` blocks an arm, alternating A B B A."""

    stage: Stage
    blocks: int


@dataclass(frozen=True)
class MeasureMore:
    """Measure further blocks on the launch pair that is already up (variance within launches rules)."""

    stage: Stage
    blocks: int


@dataclass(frozen=True)
class Evaluate:
    """Measure the quality of both arms on paired documents and items, and drafting where it changed.

    Part 0 stands under stage `evaluate`. Each further part is scored by fresh processes on documents and
    items that no earlier part used, and stands under stage `validation`.
    """

    part: int = 0


@dataclass(frozen=True)
class Screen:
    """Measure the quality of the candidate's weights before anything is timed, as soon as they can be served.

    The launch is of `Engine.plain(candidate)`; its record stands under stage `screen`, or, where that is the
    candidate itself, under `evaluate`, and then quality is measured once and for all.
    """


@dataclass(frozen=True)
class Stop:
    """Enough is known, or nothing more may be spent; `reason` is a sentence.

    `failed` is the arm that can't do the work, where that is the reason. A control that can't says nothing
    about the candidate: the experiment ends as one whose control did not run.
    """

    reason: str
    failed: Arm | None = None


Step = MeasurePair | MeasureMore | Screen | Evaluate | Stop


@dataclass(frozen=True)
class JudgeVerdict:
    """The decision on an experiment.

    `effect_log` is the natural log of candidate over control (negative is faster) with the interval
    `[interval_low_log, interval_high_log]`; all None when nothing was measured. For a metric that `is_share`
    the three are differences of shares (−0.02 is two points more). `launches` counts both
    arms, `samples` the raw values of the judged metric. `quality` holds differences with their bounds.
    """

    outcome: Outcome
    reason: str
    effect_log: float | None
    interval_low_log: float | None
    interval_high_log: float | None
    launches: int
    samples: int
    quality: Mapping[str, Json]
    details: Mapping[str, Json]


class Judge(Protocol):
    """Decides steps and verdicts. `name` and `version` are stored with every verdict."""

    name: str
    version: str

    def next_step(self, plan: StoppingPlan, evidence: Evidence) -> Step:
        """What to do next, given everything measured so far."""
        ...

    def verdict(self, plan: StoppingPlan, evidence: Evidence) -> JudgeVerdict:
        """The verdict on what was measured; never `supported` without a validation by fresh processes."""
        ...
