"""Where a handful of values has its centre, robustly. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement
from statistics import median


def hodges_lehmann(values: Sequence[float]) -> float:
    """The median of the averages of all pairs of values, each value paired with itself too; at least one.

    Stays where it is when one value of four is spoilt, and is 95 % as efficient as a mean for normal noise
    (Hodges and Lehmann, Annals of Mathematical Statistics 34, 1963).
    """
    return median([(a + b) / 2 for a, b in combinations_with_replacement(values, 2)])
