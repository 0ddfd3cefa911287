"""Several estimates of one effect made into one, by inverse variance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

_HALF_WIDTH_SE = 3.7
"""Half-width of the judge's interval in standard errors: that of its confidence sequence at 5 % over three to
six pairs with a noise profile of ten degrees of freedom (`agent.judge.t_mixture.reach`: 3.67 to 3.68
of a pair's standard deviation over √pairs). It only decides when scatter counts as disagreement."""

_LEAST_HALF_WIDTH_LOG = 1e-6
"""An interval is never taken to be narrower than this (0.0001 %), so that no estimate weighs without
limit."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """An effect as a natural log ratio, with its interval `[low_log, high_log]`."""

    effect_log: float
    low_log: float
    high_log: float

    @property
    def half_width_log(self) -> float:
        """Half the width of the interval."""
        return max((self.high_log - self.low_log) / 2, _LEAST_HALF_WIDTH_LOG)


def pool(estimates: Sequence[Estimate]) -> Estimate:
    """Return the mean weighted by inverse variance, with its interval at the level of the estimates.

    When the estimates scatter by more than their intervals explain, the pooled interval is widened by the
    scale factor √(χ²/(n − 1)) (Particle Data Group, Review of Particle Physics, introduction, "Unconstrained
    averaging"), so that disagreement never looks like precision. One estimate comes back as it is. Raises
    `ValueError` for none.
    """
    if not estimates:
        raise ValueError("there is nothing to pool")
    if len(estimates) == 1:
        return estimates[0]
    weights = [each.half_width_log**-2 for each in estimates]
    mean = sum(w * e.effect_log for w, e in zip(weights, estimates, strict=True)) / sum(weights)
    chi_squared = sum(
        (_HALF_WIDTH_SE * (each.effect_log - mean) / each.half_width_log) ** 2 for each in estimates
    )
    scale = max(1.0, sqrt(chi_squared / (len(estimates) - 1)))
    half_width = scale / sqrt(sum(weights))
    return Estimate(mean, mean - half_width, mean + half_width)
