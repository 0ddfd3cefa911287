"""The exact binomial interval of a share. Pure."""

from __future__ import annotations

LEVEL = 0.95
"""Of the interval, where nothing else is asked for."""


def exact_bounds(count: int, of: int, level: float = LEVEL) -> tuple[float, float]:
    """The interval of Clopper and Pearson (Biometrika 26, 1934) of the share `count` of `of`, two-sided, for
    independent trials; (0, 1) of nothing."""
    from scipy.special import betaincinv  # loading it takes longer than most commands

    tail = (1 - level) / 2
    low = 0.0 if count == 0 else float(betaincinv(count, of - count + 1, tail))
    high = 1.0 if count == of else float(betaincinv(count + 1, of - count, 1 - tail))
    return low, high
