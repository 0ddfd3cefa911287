"""What courses of planners come to: trials and cost to a share of the best gain, regret, wins. Pure.

The regret of a course after some trials is 1 minus its share of the best gain. Seeds pair the courses of two
planners: both were drawn the same samples. Intervals are percentile intervals of the bootstrap over seeds
(Efron and Tibshirani, *An Introduction to the Bootstrap*, 1993, §13.3).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from agent.replay.course import Course

SHARES = (0.95, 0.99)
"""Shares of the best gain that a course is looked for."""

BUDGETS = (3, 5, 10, 20)
"""Trials after which regrets are compared."""

RESAMPLES = 2000
"""Draws of the bootstrap."""

INTERVAL = 0.95
"""What an interval covers."""

REFERENCE = "random"
"""The planner that regrets are compared with."""


@dataclass(frozen=True)
class Reaching:
    """How a planner reached a share of the best gain: in how many of its seeds, and in the median the trials
    and seconds after trial 0, infinite where fewer than half of the seeds did."""

    share: float
    reached: int
    seeds: int
    trials: float
    cost_s: float


@dataclass(frozen=True)
class Difference:
    """The mean regret after `budget` trials less the reference's, and the bootstrap's interval of it."""

    budget: int
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Score:
    """A planner's measures. `regret` are means over seeds by trials (the first is trial 0's), `wins` the
    seeds in which nobody was sooner at the first of `SHARES`, `differences` against the reference: empty for
    itself and where it did not run."""

    planner: str
    reaching: tuple[Reaching, ...]
    regret: tuple[float, ...]
    wins: int
    differences: tuple[Difference, ...]


def scores(courses: Mapping[str, Sequence[Course]], trials: int, configurations: int) -> tuple[Score, ...]:
    """The measures of planners, by name, over the same seeds; regrets up to `trials`. `configurations` bounds
    the budgets that are compared: after all of them were tried nothing is left to be told."""
    wins = _wins(courses)
    reference = courses.get(REFERENCE)
    budgets = [budget for budget in BUDGETS if budget <= trials and budget < configurations]
    return tuple(
        Score(
            name,
            tuple(_reaching(found, share) for share in SHARES),
            tuple(
                math.fsum(1 - each.gain_after(after) for each in found) / len(found)
                for after in range(trials + 1)
            ),
            wins[name],
            ()
            if reference is None or name == REFERENCE
            else tuple(difference(found, reference, budget) for budget in budgets),
        )
        for name, found in courses.items()
    )


def _reaching(courses: Sequence[Course], share: float) -> Reaching:
    steps = [course.reached(share) for course in courses]
    return Reaching(
        share,
        sum(step is not None for step in steps),
        len(steps),
        median([math.inf if step is None else step.trial for step in steps]),
        median([math.inf if step is None else step.cost_s for step in steps]),
    )


def difference(courses: Sequence[Course], reference: Sequence[Course], budget: int) -> Difference:
    """The regret of courses less that of the reference's of the same seeds, after so many trials."""
    pairs = np.array(
        [
            other.gain_after(budget) - own.gain_after(budget)
            for own, other in zip(courses, reference, strict=True)
        ]
    )
    random = np.random.default_rng(budget)
    drawn = pairs[random.integers(0, len(pairs), (RESAMPLES, len(pairs)))].mean(axis=1)
    low, high = np.quantile(drawn, [(1 - INTERVAL) / 2, (1 + INTERVAL) / 2])
    return Difference(budget, float(pairs.mean()), float(low), float(high))


def _wins(courses: Mapping[str, Sequence[Course]]) -> dict[str, int]:
    """By planner in how many seeds it was at the first share in no more trials than any other; a seed in
    which nobody was is nobody's."""
    wins = dict.fromkeys(courses, 0)
    for of_seed in zip(*courses.values(), strict=True):
        steps = {course.planner: course.reached(SHARES[0]) for course in of_seed}
        soonest = min((step.trial for step in steps.values() if step is not None), default=None)
        for name, step in steps.items():
            wins[name] += step is not None and step.trial == soonest
    return wins
