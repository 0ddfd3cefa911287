"""The interval of an effect, in which the launch is the unit. Pure.

A pair's effect is candidate minus control on the log scale; each side brings the variance of one launch. Two
sources tell that variance: the spread of this experiment's own pairs (n − 1 degrees of freedom) and the
target's stored noise profile (a difference of two launches has twice the variance of one). They are pooled by
their degrees of freedom, and the interval is Student's t with the sum of both:

    s² = (ν₀ · 2·sd₀² + (n − 1) · s_obs²) / (ν₀ + n − 1),   se = max(s / √n, within-pair floor)

Two guards, because the profile comes from launches of the control and a candidate may vary more:

- the profile counts at most `NOISE_DOF_CAP` degrees of freedom, so that it never drowns what is seen here;
- when the spread of this experiment's pairs is larger than the profile explains (one-sided F test at
  `HETEROGENEITY_ALPHA`), the profile is left out and the pairs speak alone.

The error rate `alpha` is split evenly over both sides and over the planned looks (Bonferroni): an interval at
any one look misses at one side with probability alpha / (2 · looks), so that *all* looks together hold the
truth with probability 1 − alpha at least, whenever the experiment stops.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from scipy.special import fdtrc, stdtr, stdtrit

from agent.judge.pairs import PairEffect
from experiments.measurement.evidence import NoiseProfile
from experiments.measurement.plan import StoppingPlan

NOISE_DOF_CAP = 10
"""Degrees of freedom, at most, that the stored profile brings: the quantile for 10 is within a fifth of the
normal one, so more would buy little and hide a candidate that varies more than the control."""

HETEROGENEITY_ALPHA = 0.05
"""Level of the one-sided F test that sets the profile aside."""

FINAL_LOOKS = 1
"""Looks besides those at pairs 1 … full_pairs. Who goes to validation after n pairs looks at 1 … n, then at
n + validation_pairs and, while the question is open, after each pair up to full_pairs + validation_pairs:
full_pairs + 1 looks in all, whatever n is."""


@dataclass(frozen=True)
class PairNoise:
    """The standard deviation of one pair's effect and how well it is known.

    `source` is `pooled`, `profile` (one pair, so nothing of its own) or `pairs` (no profile, or set aside).
    """

    sd_log: float
    degrees_of_freedom: int
    source: str


@dataclass(frozen=True)
class Interval:
    """Mean effect of `pairs` pairs with its interval, natural log; `se_log` its standard error."""

    mean_log: float
    low_log: float
    high_log: float
    se_log: float
    degrees_of_freedom: int
    pairs: int
    noise: PairNoise


def planned_looks(plan: StoppingPlan) -> int:
    """How often the interval may be acted upon: see `FINAL_LOOKS`."""
    return plan.full_pairs + FINAL_LOOKS


def side_alpha(plan: StoppingPlan) -> float:
    """The probability with which one side of the interval may miss at one look."""
    return plan.alpha / (2 * planned_looks(plan))


def pair_noise(pairs: Sequence[PairEffect], noise: NoiseProfile) -> PairNoise | None:
    """What is known of the spread of a pair's effect; None with no degree of freedom from either source."""
    known = 0 if noise.launch_sd_log is None else min(noise.degrees_of_freedom, NOISE_DOF_CAP)
    profile_variance = 2 * noise.launch_sd_log**2 if noise.launch_sd_log is not None else 0.0
    seen = len(pairs) - 1
    if seen < 1:
        return PairNoise(math.sqrt(profile_variance), known, "profile") if known else None
    centre = fmean(pair.effect_log for pair in pairs)
    squares = math.fsum((pair.effect_log - centre) ** 2 for pair in pairs)
    if not known or _larger_than_profile(squares / seen, seen, profile_variance, noise.degrees_of_freedom):
        return PairNoise(math.sqrt(squares / seen), seen, "pairs")
    freedom = known + seen
    return PairNoise(math.sqrt((known * profile_variance + squares) / freedom), freedom, "pooled")


def interval(pairs: Sequence[PairEffect], noise: PairNoise, alpha_a_side: float) -> Interval:
    """Student's t interval of the mean effect of at least one pair, missing at each side with `alpha_a_side`.

    The standard error is never below the within-pair floor: the root mean square of the pairs' own standard
    errors over √n.
    """
    count = len(pairs)
    mean = fmean(pair.effect_log for pair in pairs)
    floor = math.sqrt(fmean(pair.within_se_log**2 for pair in pairs) / count)
    error = max(noise.sd_log / math.sqrt(count), floor)
    reach = t_quantile(alpha_a_side, noise.degrees_of_freedom) * error
    return Interval(mean, mean - reach, mean + reach, error, noise.degrees_of_freedom, count, noise)


def t_quantile(upper_tail: float, degrees_of_freedom: int) -> float:
    """The value that Student's t exceeds with probability `upper_tail`."""
    return float(stdtrit(degrees_of_freedom, 1 - upper_tail))


def chance_below(value: float, mean: float, spread: float, degrees_of_freedom: int) -> float:
    """Probability that a t-distributed quantity (location `mean`, scale `spread`) lies below `value`."""
    if spread == 0:
        return 1.0 if mean < value else 0.0
    return float(stdtr(degrees_of_freedom, (value - mean) / spread))


def _larger_than_profile(seen_variance: float, seen: int, profile_variance: float, known: int) -> bool:
    if profile_variance == 0:
        return seen_variance > 0
    return float(fdtrc(seen, known, seen_variance / profile_variance)) < HETEROGENEITY_ALPHA
