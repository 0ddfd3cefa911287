"""Error rates, power and cost of a whole judge: many simulated experiments, each with every look it took.

`simulate` is the harness: a truth (`experiment.Truth`), a plan, a profile of so many degrees of freedom and a
seed; equal arguments give equal courses. What comes back is one `Course` an experiment; `Rates` counts them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from experiments.measurement.evidence import NoiseProfile
from experiments.measurement.judging import Judge, JudgeVerdict, MeasureMore, MeasurePair, Outcome, Stop
from experiments.measurement.plan import StoppingPlan
from tests.simulation.experiment import MOST_STEPS, SimulatedExperiment, Truth, profile_of


@dataclass(frozen=True)
class Look:
    """What the judge would have said after a step: the interval, infinite where it has none, and the e-value
    of "the gain is smaller than min_effect"."""

    pairs: int
    low: float
    high: float
    e_value: float | None

    def holds(self, effect: float) -> bool:
        """Whether the interval holds the truth."""
        return self.low <= effect <= self.high


@dataclass(frozen=True)
class Course:
    """One experiment from its first pair to its verdict.

    `looks` has one entry a step that measured, the last is the verdict's. Seconds are the verdict's own: of
    launches and evaluations as measured, and of the whole plan at that cost (None where nothing was timed).
    """

    outcome: Outcome
    reason: str
    looks: tuple[Look, ...]
    pairs: int
    spent_s: float | None
    planned_s: float | None

    def holds_everywhere(self, effect: float) -> bool:
        """Whether the interval held the truth at every look."""
        return all(look.holds(effect) for look in self.looks)


@dataclass(frozen=True)
class Rates:
    """Shares over the courses of one truth; `effect` is that truth in the scale of the intervals."""

    courses: tuple[Course, ...]
    effect: float

    @property
    def experiments(self) -> int:
        """How many there were."""
        return len(self.courses)

    @property
    def outcomes(self) -> Counter[Outcome]:
        """Experiments by outcome."""
        return Counter(course.outcome for course in self.courses)

    def share(self, outcome: Outcome) -> float:
        """The share of experiments with this outcome."""
        return self.outcomes[outcome] / self.experiments

    @property
    def coverage(self) -> float:
        """The share of experiments whose verdict's interval holds the truth; no interval excludes nothing."""
        return fmean(not course.looks or course.looks[-1].holds(self.effect) for course in self.courses)

    @property
    def coverage_of_all_looks(self) -> float:
        """The share of experiments whose interval held the truth at every look."""
        return fmean(course.holds_everywhere(self.effect) for course in self.courses)

    @property
    def pairs(self) -> float:
        """Mean number of launch pairs."""
        return fmean(course.pairs for course in self.courses)

    @property
    def saved(self) -> float:
        """The share of the planned seconds that stopping early saved, over all timed experiments."""
        timed = [
            (c.spent_s, c.planned_s)
            for c in self.courses
            if c.spent_s is not None and c.planned_s is not None
        ]
        return 1 - math.fsum(spent for spent, _ in timed) / math.fsum(planned for _, planned in timed)

    def error_of(self, share: float) -> float:
        """Three standard errors of a share in so many experiments."""
        return 3 * math.sqrt(share * (1 - share) / self.experiments)


def simulate(
    judge: Judge,
    plan: StoppingPlan,
    truth: Truth,
    experiments: int,
    *,
    degrees_of_freedom: int = 2,
    seed: int = 1,
    effect: float | None = None,
    noise: NoiseProfile | None = None,
) -> Rates:
    """Run `experiments` experiments of one truth.

    Each has a noise profile of its own, drawn with `degrees_of_freedom`, or `noise` for all. `effect` is the
    truth in the scale of the interval, `truth.effect_log` where it is None.
    """
    rng = np.random.default_rng(seed)
    courses = []
    for _ in range(experiments):
        profile = noise or profile_of(plan, truth, degrees_of_freedom, rng)
        courses.append(course(judge, plan, SimulatedExperiment(plan, truth, rng, profile)))
    return Rates(tuple(courses), truth.effect_log if effect is None else effect)


def course(judge: Judge, plan: StoppingPlan, experiment: SimulatedExperiment) -> Course:
    """Step one experiment to its stop, looking after every step that measured time, and judge it."""
    looks: list[Look] = []
    for _ in range(MOST_STEPS):
        evidence = experiment.evidence()
        step = judge.next_step(plan, evidence)
        if isinstance(step, Stop):
            verdict = judge.verdict(plan, evidence)
            if not looks or looks[-1].pairs == experiment.pairs:
                looks = [*looks[:-1], _look(verdict, experiment.pairs)]
            return Course(
                verdict.outcome,
                verdict.reason,
                tuple(looks),
                experiment.pairs,
                _number(verdict, "spent_s"),
                _number(verdict, "planned_s"),
            )
        experiment.take(step)
        if isinstance(step, MeasurePair | MeasureMore):
            looks.append(_look(judge.verdict(plan, experiment.evidence()), experiment.pairs))
    raise AssertionError(f"the judge did not stop within {MOST_STEPS} steps")


def head(columns: Iterable[str]) -> str:
    """The head of a table in Markdown."""
    names = list(columns)
    return f"| {' | '.join(names)} |\n|{'---|' * len(names)}"


def _look(verdict: JudgeVerdict, pairs: int) -> Look:
    low, high = verdict.interval_low_log, verdict.interval_high_log
    return Look(
        pairs,
        -math.inf if low is None else low,
        math.inf if high is None else high,
        _number(verdict, "e_value"),
    )


def _number(verdict: JudgeVerdict, name: str) -> float | None:
    found = verdict.details.get(name)
    return float(found) if isinstance(found, int | float) else None
