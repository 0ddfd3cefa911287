"""The spread of raw samples: count, median, and the middle 80 % of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum

from knowledge.queries.view import View

LOW_SHARE, HIGH_SHARE = 0.1, 0.9
"""The quantiles that tell the spread of a launch's samples."""


class SpreadView(View):
    """The samples of one metric: `low` and `high` hold the middle 80 % of them, all in `unit`; of samples
    that are 0 or 1 the `mean` is the share of ones."""

    metric: str
    unit: str
    count: int
    mean: float
    median: float
    low: float
    high: float


def spread(metric: str, unit: str, values: Sequence[float]) -> SpreadView:
    """Return the spread of at least one value; quantiles by linear interpolation."""
    ordered = sorted(values)
    return SpreadView(
        metric=metric,
        unit=unit,
        count=len(ordered),
        mean=fsum(ordered) / len(ordered),
        median=_quantile(ordered, 0.5),
        low=_quantile(ordered, LOW_SHARE),
        high=_quantile(ordered, HIGH_SHARE),
    )


def spread_at(metric: str, unit: str, count: int, mean: float, values: Mapping[int, float]) -> SpreadView:
    """Return the spread of `count` samples of which only those beside the quantiles are known, by their place
    in ascending order from 0."""
    return SpreadView(
        metric=metric,
        unit=unit,
        count=count,
        mean=mean,
        median=_between(values, count, 1, 2),
        low=_between(values, count, 1, 10),
        high=_between(values, count, 9, 10),
    )


def _between(values: Mapping[int, float], count: int, part: int, whole: int) -> float:
    below, rest = divmod(part * (count - 1), whole)
    above = values[below + 1] if rest else values[below]
    return values[below] + rest / whole * (above - values[below])


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])
