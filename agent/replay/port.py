"""The planner's port: what is known goes in, the next configuration to measure comes out.

A planner registers under the entry-point group `autoinfer.planners` as a callable that takes a `Problem` and
a seed and returns a `Planner`. It sees what any other sees: the knobs, what is known before the first trial
(`Prior`), and what it is told of each trial. Nothing of the table's latencies is in a `Problem`.
`tests/unit/agent/replay/conformance.py` holds each to this page.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, TypeAlias, runtime_checkable

from configs.models import ModelProfile
from experiments.engines.port import PartTime
from experiments.space.configuration import Configuration
from experiments.space.space import Space


@dataclass(frozen=True)
class Prior:
    """What is known of a table's ground before a trial: the model's shape, the memory's bandwidth, whether
    the engine computes with packed weights, whether weights are made up. None and empty where it is not."""

    shape: ModelProfile | None = None
    bandwidth_bytes_per_s: float | None = None
    serves_packed: bool = True
    made_up: bool = False


@dataclass(frozen=True)
class Problem:
    """What a planner knows before it is asked.

    `configurations` are those that can be measured, in an order of the knobs that tells nothing of their
    times; trial 0, `baseline`, is one of them. `quality_limit` is how much worse than trial 0's a quality may
    be, as a share. Latencies are of `metric`, in ms, and less is better.
    """

    space: Space
    baseline: Configuration
    configurations: tuple[Configuration, ...]
    metric: str
    quality_limit: float
    prior: Prior = field(default_factory=Prior)


@dataclass(frozen=True)
class Told:
    """What a trial told; trial 0 is the baseline's.

    `samples_ms` is empty where it did not run, and `cause` is then a word for why. `quality` is better when
    lower, None where it is not measured. `build_s` is what was built for it (0 for a build that existed),
    `run_s` what all else took. `resolved` is what really ran, `profile` the step by part, where known.
    `tokens_a_step` is the mean acceptance length of one that drafts; None where that is not known.
    """

    trial: int
    configuration: Configuration
    samples_ms: tuple[float, ...]
    quality: float | None
    build_s: float
    run_s: float
    cause: str = ""
    resolved: Mapping[str, str] = field(default_factory=dict)
    profile: tuple[PartTime, ...] = ()
    tokens_a_step: float | None = None

    @property
    def ran(self) -> bool:
        """Whether it ran."""
        return bool(self.samples_ms)

    @cached_property
    def mean_ms(self) -> float:
        """The mean of the samples; infinite where it did not run."""
        return math.fsum(self.samples_ms) / len(self.samples_ms) if self.samples_ms else math.inf

    @property
    def cost_s(self) -> float:
        """What the trial cost."""
        return self.build_s + self.run_s


class Planner(Protocol):
    """Chooses what to measure next. Deterministic for a problem, a seed and what it was told."""

    def ask(self, history: Sequence[Told]) -> Configuration | None:
        """The next configuration of the problem; None to stop. `history` is all that was told, trial 0
        first. A configuration may be asked for again, which costs a trial and is drawn anew."""
        ...

    def tell(self, told: Told) -> None:
        """What the last trial told; trial 0 comes before the first `ask`."""
        ...


@runtime_checkable
class Forecaster(Protocol):
    """What a planner has besides if it says beforehand what it expects of a trial; `docs/replay.md` tells how
    that is scored."""

    def predict(self, configuration: Configuration) -> tuple[float, float]:
        """Mean and standard deviation, above 0, of the natural log of the milliseconds that this
        configuration will take in the mean of its samples, by all that was told so far. It changes nothing of
        what the planner asks for next."""
        ...


PlannerFactory: TypeAlias = Callable[[Problem, int], Planner]
"""Makes the planner of a problem and a seed. Raises `UsageError` where a package that it needs is missing."""


def untried(problem: Problem, history: Sequence[Told]) -> list[Configuration]:
    """The configurations that no trial was of, in the problem's order."""
    tried = {told.configuration for told in history}
    return [each for each in problem.configurations if each not in tried]


def keeps(quality: float | None, baseline: float | None, limit: float) -> bool:
    """Whether a quality is within `limit` (a share) of trial 0's; what was not measured is taken to be."""
    return quality is None or baseline is None or quality <= baseline * (1 + limit)


def accepted(problem: Problem, baseline: Told, told: Told) -> bool:
    """Whether a trial ran and keeps the quality of trial 0."""
    return told.ran and keeps(told.quality, baseline.quality, problem.quality_limit)
