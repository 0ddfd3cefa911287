"""The interval of an effect, in which the launch pair is the unit, valid at all looks together. Pure.

A pair's effect is candidate minus control on the log scale; each side brings the variance of one launch. Two
sources tell that variance: the spread of this experiment's own pairs (n − 1 degrees of freedom) and the
target's stored noise profile of A/A launches (a difference of two launches has twice the variance of one).
The profile stands for earlier data of the same variance, W₀ = ν₀ · 2·sd₀², and the interval is the t-mixture
confidence sequence of `agent.judge.t_mixture`: it may be looked at after every pair and acted upon at any.

The guarantee is that of the model: the effects of the pairs are independent and normal about one mean, and
their variance is the profile's. Two guards stand where the model may fail, because the profile comes from
launches of the control and a candidate may vary more. Both can only widen the interval and lower an
e-value that speaks for a gain, so that they cost nothing of the guarantee where the model holds:

- where this experiment's pairs spread more than the profile explains (one-sided F test at
  `HETEROGENEITY_ALPHA`), the sequence without a profile is taken too, and the wider of both counts;
- a pair's variance is never taken to be below what the spread of the blocks within the pairs alone gives.

Besides, the profile counts at most `NOISE_DOF_CAP` degrees of freedom. What is known better than it is
counted makes E smaller in expectation at every fixed n: E is convex in W₀, and a variance of more degrees of
freedom is spread less about the same mean (Jensen). For E₋, and where one stops by what one sees, that is
measured and not proven: at eight ways to stop both have means below 0.8 (`test_t_mixture.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from scipy.special import fdtrc, stdtr, stdtrit

from agent.judge import t_mixture
from agent.judge.pairs import PairEffect
from experiments.measurement.evidence import NoiseProfile

NOISE_DOF_CAP = 10
"""Degrees of freedom, at most, that the stored profile brings: more would narrow the interval of four pairs
by 15 % at most, and hide a candidate that varies more than the control."""

HETEROGENEITY_ALPHA = 0.05
"""Level of the one-sided F test that sets the profile aside."""

LEAST_SD_LOG = 1e-6
"""A standard deviation of a pair that is no larger is none of measured times, but of copied or rounded ones:
the steadiest machines vary by a hundred times as much."""

MOST_LOG_E = 700.0
"""An e-value is told up to exp(700), the largest that a double holds with room to spare."""


@dataclass(frozen=True)
class PairNoise:
    """What is known of the variance of one pair's effect after `pairs` pairs.

    `squares` (natural log, squared) is the sum of squares of `earlier_freedom` + `pairs` − 1 degrees of
    freedom, of which `earlier_freedom` are the profile's. `source` is `pooled`, `profile` (one pair, so
    nothing of its own) or `pairs` (no profile, or set aside).
    """

    squares: float
    earlier_freedom: int
    pairs: int
    source: str

    @property
    def degrees_of_freedom(self) -> int:
        """Degrees of freedom of the standard deviation."""
        return self.earlier_freedom + self.pairs - 1

    @property
    def sd_log(self) -> float:
        """The standard deviation of one pair's effect."""
        return math.sqrt(self.squares / self.degrees_of_freedom)

    def reach(self, pairs: int, alpha: float) -> float:
        """Half the width of the interval over `pairs` pairs, at the standard deviation known by now."""
        squares = self.sd_log**2 * (self.earlier_freedom + pairs - 1)
        return t_mixture.reach(pairs, squares, self.earlier_freedom, alpha)


@dataclass(frozen=True)
class Interval:
    """Mean effect of `pairs` pairs with its interval, natural log; `se_log` its standard error.

    The ends are infinite while so few pairs exclude nothing.
    """

    mean_log: float
    low_log: float
    high_log: float
    se_log: float
    pairs: int
    noises: tuple[PairNoise, ...]

    @property
    def noise(self) -> PairNoise:
        """What the spread of a pair is by these pairs: without the profile where it is set aside."""
        return self.noises[-1]

    @property
    def bounded(self) -> bool:
        """Whether it excludes anything."""
        return math.isfinite(self.high_log)


def pair_noises(pairs: Sequence[PairEffect], profile: NoiseProfile) -> tuple[PairNoise, ...]:
    """What is known of the spread of a pair's effect: with the profile, where there is one, and without it,
    where there is none or it is set aside; empty with no degree of freedom from either source, and where all
    that is known are values more alike than measured ones are.

    The last is the one to predict with.
    """
    count, known = len(pairs), _freedom(profile)
    variance = 2 * profile.launch_sd_log**2 if profile.launch_sd_log is not None else 0.0
    centre = fmean(pair.effect_log for pair in pairs)
    own = math.fsum((pair.effect_log - centre) ** 2 for pair in pairs)
    floor = fmean(pair.within_se_log**2 for pair in pairs)
    found = []
    if known:
        squares = max(known * variance + own, (known + count - 1) * floor)
        found.append(PairNoise(squares, known, count, "pooled" if count > 1 else "profile"))
    if count > 1 and (not known or _larger(own / (count - 1), count - 1, variance, profile)):
        found.append(PairNoise(max(own, (count - 1) * floor), 0, count, "pairs"))
    return tuple(each for each in found if each.sd_log > LEAST_SD_LOG)


def interval(pairs: Sequence[PairEffect], noises: Sequence[PairNoise], alpha: float) -> Interval:
    """The confidence sequence of the mean effect at these pairs, level 1 − `alpha`: the widest of
    `noises`."""
    mean = fmean(pair.effect_log for pair in pairs)
    count, noise = len(pairs), noises[-1]
    reach = max(t_mixture.reach(count, each.squares, each.earlier_freedom, alpha) for each in noises)
    return Interval(mean, mean - reach, mean + reach, noise.sd_log / math.sqrt(count), count, tuple(noises))


def e_value_below(pairs: Sequence[PairEffect], noises: Sequence[PairNoise], bound_log: float) -> float:
    """Evidence that the effect lies below `bound_log`: an e-value of "it is `bound_log` or more"; the least
    of `noises`."""
    distance = fmean(pair.effect_log for pair in pairs) - bound_log
    found = (
        t_mixture.log_e_below(distance, len(pairs), each.squares, each.earlier_freedom) for each in noises
    )
    return math.exp(min(MOST_LOG_E, *found))


def one_look_high(pairs: Sequence[PairEffect], noise: PairNoise, alpha: float) -> float:
    """The upper end of a one-sided Student interval over some of the pairs, at level 1 − `alpha` at one
    look."""
    mean = fmean(pair.effect_log for pair in pairs)
    return mean + t_quantile(alpha, noise.degrees_of_freedom) * noise.sd_log / math.sqrt(len(pairs))


def t_quantile(upper_tail: float, degrees_of_freedom: int) -> float:
    """The value that Student's t exceeds with probability `upper_tail`."""
    return float(stdtrit(degrees_of_freedom, 1 - upper_tail))


def chance_below(value: float, mean: float, spread: float, degrees_of_freedom: int) -> float:
    """Probability that a t-distributed quantity (location `mean`, scale `spread`) lies below `value`."""
    if spread == 0:
        return 1.0 if mean < value else 0.0
    return float(stdtr(degrees_of_freedom, (value - mean) / spread))


def _freedom(profile: NoiseProfile) -> int:
    return 0 if profile.launch_sd_log is None else min(profile.degrees_of_freedom, NOISE_DOF_CAP)


def _larger(seen_variance: float, seen: int, variance: float, profile: NoiseProfile) -> bool:
    if variance == 0:
        return seen_variance > 0
    return float(fdtrc(seen, profile.degrees_of_freedom, seen_variance / variance)) < HETEROGENEITY_ALPHA
