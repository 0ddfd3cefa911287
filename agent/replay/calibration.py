"""How well a planner's predictions hold: each is made before its trial, and scored by what was told. Pure.

The protocol is prequential (Dawid, *Journal of the Royal Statistical Society A* 147, 1984): a prediction
knows every trial before it and none after. Two measures: the share of outcomes inside the central 80 %
interval, and the continuous ranked probability score, which rewards being near and being sharp at once; less
is better. Of a normal it has a closed form (Gneiting and Raftery, *Journal of the American Statistical
Association* 102, 2007, §4.2).

Predictions of one row in several seeds are of one measured truth, and rows of one configuration under several
workloads are alike: what is counted are rows, each with the mean over its seeds, and the bootstrap draws
whole configurations. Only the first seed has one outcome a row; its share has the exact binomial interval
too, which takes rows for independent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TypeAlias

import numpy as np

from knowledge.exact_interval import exact_bounds

NOMINAL = 0.80
"""What the interval of a prediction is to cover."""

INTERVAL = 0.95
"""What intervals of the measures cover."""

RESAMPLES = 2000
"""Draws of the bootstrap."""

HALF_WIDTH_SD = NormalDist().inv_cdf((1 + NOMINAL) / 2)
"""Half of the 80 % interval of a normal, in standard deviations: 1.28."""

Forecast: TypeAlias = tuple[float, float]
"""Mean and standard deviation of a normal, of the natural log of milliseconds."""


@dataclass(frozen=True)
class Outcome:
    """A trial's log of milliseconds, in the mean of its samples, beside what was predicted before it: by the
    planner, and by the same planner when it knew trial 0 alone (its prior)."""

    measured_log: float
    forecast: Forecast
    prior: Forecast

    @property
    def inside(self) -> bool:
        """Whether it lies inside the 80 % interval of the prediction."""
        mean, sd = self.forecast
        return abs(self.measured_log - mean) <= HALF_WIDTH_SD * sd


Outcomes: TypeAlias = Mapping[tuple[str, str], Mapping[int, Outcome]]
"""Outcomes by row, which is a table's name with a configuration's digest, and by seed."""


@dataclass(frozen=True)
class Mean:
    """A mean over rows with the bootstrap's 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Calibration:
    """Of so many outcomes of so many rows and configurations: the share `inside` the 80 % interval; how many
    of the first seed's, with the exact interval of their share; CRPS, the prior's, and the first less the
    second."""

    outcomes: int
    rows: int
    configurations: int
    inside: Mean
    first_inside: int
    first: int
    first_low: float
    first_high: float
    crps: float
    prior_crps: float
    difference: Mean


def crps(forecast: Forecast, measured_log: float) -> float:
    """The continuous ranked probability score of a normal: σ (z (2Φ(z) − 1) + 2φ(z) − 1/√π), with z the
    outcome's distance from the mean in standard deviations. In the unit of the outcome, 0 at best."""
    mean, sd = forecast
    z, normal = (measured_log - mean) / sd, NormalDist()
    return sd * (z * (2 * normal.cdf(z) - 1) + 2 * normal.pdf(z) - 1 / math.sqrt(math.pi))


def calibration(found: Outcomes) -> Calibration | None:
    """The measures of outcomes; None of none."""
    if not found:
        return None
    per_row = np.array([_of_row(tuple(outcomes.values())) for outcomes in found.values()])
    groups = dict[str, list[int]]()
    for number, (_, digest) in enumerate(found):
        groups.setdefault(digest, []).append(number)
    drawn = _resampled(per_row, list(groups.values()))
    earliest = min(seed for outcomes in found.values() for seed in outcomes)
    first = [outcomes[earliest].inside for outcomes in found.values() if earliest in outcomes]
    inside, own, prior = map(float, per_row.mean(axis=0))
    low, high = exact_bounds(sum(first), len(first), INTERVAL)
    return Calibration(
        outcomes=sum(map(len, found.values())),
        rows=len(found),
        configurations=len(groups),
        inside=Mean(inside, *_bounds(drawn[:, 0])),
        first_inside=sum(first),
        first=len(first),
        first_low=low,
        first_high=high,
        crps=own,
        prior_crps=prior,
        difference=Mean(own - prior, *_bounds(drawn[:, 1] - drawn[:, 2])),
    )


def _of_row(outcomes: Sequence[Outcome]) -> tuple[float, float, float]:
    """Means over a row's seeds: share inside, CRPS, the prior's CRPS."""
    count = len(outcomes)
    return (
        sum(each.inside for each in outcomes) / count,
        math.fsum(crps(each.forecast, each.measured_log) for each in outcomes) / count,
        math.fsum(crps(each.prior, each.measured_log) for each in outcomes) / count,
    )


def _resampled(per_row: np.ndarray, groups: Sequence[Sequence[int]]) -> np.ndarray:
    """Means over rows of so many draws of as many groups, with replacement: draws × measures."""
    sums = np.array([per_row[list(group)].sum(axis=0) for group in groups])
    sizes = np.array([len(group) for group in groups])
    chosen = np.random.default_rng(len(groups)).integers(0, len(groups), (RESAMPLES, len(groups)))
    means: np.ndarray = sums[chosen].sum(axis=1) / sizes[chosen].sum(axis=1)[:, None]
    return means


def _bounds(values: np.ndarray) -> tuple[float, float]:
    low, high = np.quantile(values, [(1 - INTERVAL) / 2, (1 + INTERVAL) / 2])
    return float(low), float(high)
