"""Bounds of non-inferiority: how much worse a candidate is, paired, with one-sided bounds. Pure.

- **Bits**: the ratio of total bits is a ratio estimate, R = Σ candidate bits / Σ control bits over the same
  documents; its standard error comes from the residuals e_j = y_j − R·x_j (Cochran, *Sampling Techniques*,
  §6.3), with Student's t on n − 1.
- **Items**: b items were right before and are wrong now, c the other way round; the net loss is (b − c) / n.
  Its bound is Tango's score bound for paired proportions (Statistics in Medicine 17, 1998) with a small
  correction for continuity, which keeps its level where the usual one fails, at few or no discordant items.
- **KL**: the mean over documents of the mean KL a token, with Student's t on n − 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, stdev

from scipy.special import ndtri

from agent.judge.interval import t_quantile

MIN_DOCUMENTS = 8
"""Fewest paired documents of which a ratio estimate is trusted: its linear error term is of order 1/n."""

POINTS = 100.0
"""Percentage points in one."""

CONTINUITY_ITEMS = 0.25
"""Added to the lost items: with it the exact size of the task test, by enumeration over all chances to lose
and gain at 150, 300 and 600 items, is at most alpha = 5 %; without it up to 6 %."""

BISECTIONS = 40
"""Halvings of an interval of length ≤ 2: a bound is exact to 2e-12."""


class Quality(StrEnum):
    """What the paired quality data say; `NOT_KNOWN` where weights are made up, and there is none."""

    HELD = "held"
    WORSE = "worse"
    UNDECIDED = "undecided"
    NOT_MEASURED = "not measured"
    NOT_KNOWN = "not known"


@dataclass(frozen=True)
class Bound:
    """A difference (positive is worse) with its one-sided lower and upper bounds, and the margin.

    In the unit of the margin: relative for bits per byte, percentage points for tasks. `count` documents or
    items were paired.
    """

    difference: float
    low: float
    high: float
    margin: float
    count: int

    @property
    def state(self) -> Quality:
        """Held if the upper bound keeps the margin, worse if even the lower bound is beyond it."""
        if self.high <= self.margin:
            return Quality.HELD
        return Quality.WORSE if self.low > self.margin else Quality.UNDECIDED


def bits_bound(
    control: Sequence[float], candidate: Sequence[float], *, margin: float, alpha: float
) -> Bound | None:
    """The relative difference of total bits with one-sided bounds at `1 − alpha` each.

    `control` and `candidate` are bits of the same documents in the same order. None for fewer than
    `MIN_DOCUMENTS`.
    """
    count = len(control)
    if count < MIN_DOCUMENTS:
        return None
    ratio, error = ratio_estimate(control, candidate)
    reach = t_quantile(alpha, count - 1) * error
    return Bound(ratio - 1, ratio - 1 - reach, ratio - 1 + reach, margin, count)


def ratio_estimate(control: Sequence[float], candidate: Sequence[float]) -> tuple[float, float]:
    """The ratio of totals, candidate over control, and its standard error; of two pairs at least."""
    count, total = len(control), math.fsum(control)
    ratio = math.fsum(candidate) / total
    residuals = [after - ratio * before for before, after in zip(control, candidate, strict=True)]
    squares = math.fsum(residual**2 for residual in residuals)
    return ratio, math.sqrt(count / (count - 1) * squares) / total


def lost_and_gained(control: Mapping[str, float], candidate: Mapping[str, float]) -> tuple[int, int, int]:
    """How many items both arms answered that the candidate lost, that it gained, and how many in all."""
    items = control.keys() & candidate.keys()
    lost = sum(control[name] > candidate[name] for name in items)
    gained = sum(control[name] < candidate[name] for name in items)
    return lost, gained, len(items)


def kl_bound(nats: Sequence[float], *, margin: float, alpha: float) -> Bound | None:
    """The mean KL a token over documents, nats, with one-sided bounds at `1 − alpha` each.

    None for fewer than `MIN_DOCUMENTS`.
    """
    count = len(nats)
    if count < MIN_DOCUMENTS:
        return None
    mean, reach = fmean(nats), t_quantile(alpha, count - 1) * stdev(nats) / math.sqrt(count)
    return Bound(mean, mean - reach, mean + reach, margin, count)


def task_bound(*, lost: int, gained: int, items: int, margin_points: float, alpha: float) -> Bound | None:
    """The net loss in percentage points with one-sided bounds at `1 − alpha` each; None without items."""
    if items == 0:
        return None
    return Bound(
        difference=POINTS * (lost - gained) / items,
        low=-POINTS * tango_upper(gained, lost, items, alpha),
        high=POINTS * tango_upper(lost, gained, items, alpha),
        margin=margin_points,
        count=items,
    )


def tango_upper(lost: int, gained: int, items: int, alpha: float) -> float:
    """The largest net loss, as a share of the items, that the score test at `alpha` does not exclude."""
    z = float(-ndtri(alpha))
    low, high = (lost - gained) / items, 1.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if _tango_score(lost + CONTINUITY_ITEMS, gained, items, middle) < z:
            low = middle
        else:
            high = middle
    return high


def _tango_score(lost: float, gained: int, items: int, loss: float) -> float:
    """How many standard errors the observed net loss lies below `loss`.

    Under a net loss δ the chances are q + δ (lost) and q (gained); q is the constrained maximum-likelihood
    estimate, the larger root of 2n·q² + ((2n − b + c)·δ − b − c)·q − c·δ·(1 − δ) = 0.
    """
    linear = (2 * items - lost + gained) * loss - lost - gained
    constant = -gained * loss * (1 - loss)
    q = (math.sqrt(max(0.0, linear * linear - 8 * items * constant)) - linear) / (4 * items)
    variance = items * (2 * q + loss * (1 - loss))
    distance = items * loss - (lost - gained)
    if variance <= 0:
        return math.inf if distance > 0 else 0.0
    return distance / math.sqrt(variance)
