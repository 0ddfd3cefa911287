"""Where values have their centre, robustly. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement
from statistics import median

import numpy as np
from numpy.typing import NDArray

MOST_LISTED = 256
"""Values up to which all averages of pairs, 32,896 of them, are listed; of more they are counted."""


def hodges_lehmann(values: Sequence[float]) -> float:
    """The median of the averages of all pairs of values, each value paired with itself too; at least one.

    Stays where it is when one value of four is spoilt, and is 95 % as efficient as a mean for normal noise
    (Hodges and Lehmann, Annals of Mathematical Statistics 34, 1963). The averages of more than `MOST_LISTED`
    values are not listed: their median is found by bisection, in the memory of the values.
    """
    if len(values) <= MOST_LISTED:
        return median([(a + b) / 2 for a, b in combinations_with_replacement(values, 2)])
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    averages = len(values) * (len(values) + 1) // 2
    below, above = (averages + 1) // 2, averages // 2 + 1
    low = _average_of_rank(ordered, below)
    return low if above == below else (low + _average_of_rank(ordered, above)) / 2


def _average_of_rank(ordered: NDArray[np.float64], rank: int) -> float:
    """The average of two values that is the `rank`-th from below, from 1, to the last digit or so.

    How many averages are at most t is a sum over the values: of those from the value itself on, as many as
    are at most 2t less the value.
    """
    places = np.arange(len(ordered))
    low, high = float(ordered[0]), float(ordered[-1])
    if low == high:
        return low
    while low < (middle := low + (high - low) / 2) < high:
        ends = np.searchsorted(ordered, 2 * middle - ordered, side="right")
        if int(np.maximum(ends - places, 0).sum()) >= rank:
            high = middle
        else:
            low = middle
    return high
