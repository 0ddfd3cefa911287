"""Estimates with intervals that an A/A series needs: spreads, a slope, correlations, shares. Pure.

All intervals are two-sided at `LEVEL`. Values are natural logs unless said otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from statistics import fmean, stdev
from typing import TypeVar

from scipy.special import bdtr, chdtri, fdtri, stdtrit

from knowledge.exact_interval import exact_bounds

LEVEL = 0.95
"""Confidence of every interval here."""

_T = TypeVar("_T")
_TAIL = (1 - LEVEL) / 2
_CORRELATIONS = tuple(k / 50 for k in range(-49, 50))
_MANY = 10**9
"""Degrees of freedom that stand for infinitely many."""


@dataclass(frozen=True)
class Estimate:
    """A value with its interval, from `n` independent units; a bound is None where nothing tells it."""

    value: float
    low: float | None
    high: float | None
    n: int

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval lies on one side of 0."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)

    def within(self, bound: float) -> bool:
        """Whether the whole interval lies between −`bound` and `bound`."""
        return self.low is not None and self.high is not None and -bound <= self.low <= self.high <= bound


def mean(values: Sequence[float]) -> Estimate | None:
    """The mean of independent values with Student's t; None for none."""
    if not values:
        return None
    centre, n = fmean(values), len(values)
    if n == 1:
        return Estimate(centre, None, None, 1)
    reach = float(stdtrit(n - 1, 1 - _TAIL)) * stdev(values) / math.sqrt(n)
    return Estimate(centre, centre - reach, centre + reach, n)


def standard_deviation(squares: float, freedom: int, n: int) -> Estimate | None:
    """A standard deviation from a sum of squares with `freedom` degrees of freedom, by chi-squared."""
    if freedom < 1:
        return None
    return Estimate(
        math.sqrt(squares / freedom),
        math.sqrt(squares / float(chdtri(freedom, _TAIL))),
        math.sqrt(squares / float(chdtri(freedom, 1 - _TAIL))),
        n,
    )


def launch_sd(differences: Sequence[float]) -> Estimate | None:
    """The standard deviation between launches from the differences within pairs of them.

    A pair is a window of two launches, as the noise profile has it: its mean is taken out, so each brings one
    degree of freedom and half of its squared difference.
    """
    return standard_deviation(math.fsum(d**2 for d in differences) / 2, len(differences), len(differences))


def spread_ratio(first: Sequence[float], second: Sequence[float]) -> Estimate | None:
    """How many times as large the root mean square of `first` is as that of `second`, by the F
    distribution."""
    if not first or not second:
        return None
    m, n = len(first), len(second)
    below = math.fsum(d**2 for d in second) / n
    if below == 0:
        return None
    ratio = math.fsum(d**2 for d in first) / m / below
    low, high = ratio / float(fdtri(m, n, 1 - _TAIL)), ratio / float(fdtri(m, n, _TAIL))
    return Estimate(math.sqrt(ratio), math.sqrt(low), math.sqrt(high), min(m, n))


def share(count: int, of: int) -> Estimate:
    """A share with the exact binomial interval of Clopper and Pearson (Biometrika 26, 1934)."""
    return Estimate(count / of if of else math.nan, *exact_bounds(count, of, LEVEL), of)


def sign_test(values: Sequence[float]) -> float:
    """The probability, two-sided, of signs at least as uneven as these where both are equally likely."""
    signs = [value < 0 for value in values if value != 0]
    fewer = min(sum(signs), len(signs) - sum(signs))
    return min(1.0, 2 * float(bdtr(fewer, len(signs), 0.5))) if signs else 1.0


def slope(times: Sequence[float], values: Sequence[float]) -> Estimate | None:
    """The least squares slope of `values` over `times`, with Student's t; None for less than 3 of them."""
    n = len(values)
    if n < 3:
        return None
    middle, level = fmean(times), fmean(values)
    across = math.fsum((t - middle) ** 2 for t in times)
    if across == 0:
        return None
    steep = math.fsum((t - middle) * (v - level) for t, v in zip(times, values, strict=True)) / across
    left = math.fsum((v - level - steep * (t - middle)) ** 2 for t, v in zip(times, values, strict=True))
    reach = float(stdtrit(n - 2, 1 - _TAIL)) * math.sqrt(left / (n - 2) / across)
    return Estimate(steep, steep - reach, steep + reach, n)


def autocorrelation(groups: Sequence[Sequence[Sequence[float]]]) -> Estimate | None:
    """The correlation of neighbours (lag 1) in series of values, each about its own mean.

    `groups` are independent of each other, such as launch pairs; each holds series, such as its launches. The
    ratio of products of neighbours to squares is pooled over all series. Taking out the mean of a short
    series makes it too small, so the correlation is read off as that of the AR(1) process that is expected to
    give this ratio at this length. The interval is the jackknife's over groups. None when nothing varies.
    """
    sums = [each for each in map(_neighbours, groups) if each[1] > 0]
    lengths = [len(series) for group in groups for series in group if len(series) > 2]
    if not sums or not lengths:
        return None
    length = round(fmean(lengths))
    known = [(_expected_ratio(rho, length), rho) for rho in _CORRELATIONS]

    def pooled(chosen: Sequence[tuple[float, float]]) -> float:
        ratio = math.fsum(each[0] for each in chosen) / math.fsum(each[1] for each in chosen)
        return _read_off(ratio, known)

    return jackknife(sums, pooled)


def jackknife(units: Sequence[_T], of: Callable[[Sequence[_T]], float]) -> Estimate:
    """`of` all units, with the interval of its pseudo-values (Tukey, 1958)."""
    n, whole = len(units), of(units)
    if n < 3:
        return Estimate(whole, None, None, n)
    pseudo = [n * whole - (n - 1) * of([*units[:k], *units[k + 1 :]]) for k in range(n)]
    reach = float(stdtrit(n - 1, 1 - _TAIL)) * stdev(pseudo) / math.sqrt(n)
    return Estimate(whole, whole - reach, whole + reach, n)


def effective_samples(count: int, correlation: float) -> float:
    """How many independent values say as much on the mean as `count` with this correlation of neighbours."""
    worth = count * (1 - correlation) / (1 + correlation)
    return min(float(count), max(1.0, worth))


def excess_kurtosis(values: Sequence[float]) -> Estimate | None:
    """How heavy the tails are (0 for a normal), unbiased for normal values, with its normal-theory interval.

    None for less than 4 values or no spread.
    """
    n = len(values)
    centre = fmean(values) if n else 0.0
    second = math.fsum((v - centre) ** 2 for v in values) / max(n, 1)
    if n < 4 or second == 0:
        return None
    plain = math.fsum((v - centre) ** 4 for v in values) / n / second**2 - 3
    value = (n - 1) / ((n - 2) * (n - 3)) * ((n + 1) * plain + 6)
    skew_error = math.sqrt(6 * n * (n - 1) / ((n - 2) * (n + 1) * (n + 3)))
    error = 2 * skew_error * math.sqrt((n**2 - 1) / ((n - 3) * (n + 5)))
    reach = float(stdtrit(_MANY, 1 - _TAIL)) * error
    return Estimate(value, value - reach, value + reach, n)


def normality(values: Sequence[float]) -> float | None:
    """The p-value of Shapiro and Wilk's test that values are normal; None for less than 3 or no spread."""
    if len(values) < 3 or len(set(values)) == 1:
        return None
    from scipy.stats import shapiro  # loading it takes longer than everything else here

    return float(shapiro(list(values)[:5000]).pvalue)  # its p-value is not known beyond


def _neighbours(group: Sequence[Sequence[float]]) -> tuple[float, float]:
    """The sum of products of neighbours, and of squares, over the series of a group."""
    products = squares = 0.0
    for series in group:
        if len(series) > 2:
            centre = fmean(series)
            rest = [value - centre for value in series]
            products += math.fsum(a * b for a, b in pairwise(rest))
            squares += math.fsum(e**2 for e in rest)
    return products, squares


def _expected_ratio(rho: float, length: int) -> float:
    """Expected products of neighbours over expected squares, about the mean of `length` values of AR(1)."""
    powers = [rho**k for k in range(length)]
    sums = list(accumulate(powers))
    rows = [(sums[k] + sums[length - 1 - k] - 1) / length for k in range(length)]
    middle = fmean(rows)
    products = math.fsum(rho - a - b + middle for a, b in pairwise(rows))
    return products / math.fsum(1 - 2 * row + middle for row in rows)


def _read_off(ratio: float, known: Sequence[tuple[float, float]]) -> float:
    """The correlation at `ratio`, between the two nearest of those known."""
    if ratio <= known[0][0]:
        return known[0][1]
    for (below, low), (above, high) in pairwise(known):
        if ratio <= above:
            return low + (high - low) * (ratio - below) / (above - below)
    return known[-1][1]
