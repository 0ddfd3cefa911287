"""The small glyph of an effect: a dot on its interval, beside no effect and the smallest worth having. Pure.

Positions are per cent of the width, on a scale that rows of one list share. A hollow dot is predicted, a
filled one measured.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from knowledge.queries.view import EffectView

WIDEST = 0.6
"""Most of a change either way that a scale reaches to: what lies beyond is drawn to the edge."""

LEAST_REACH = 0.05
"""A scale shows at least this much change either way, so that noise does not fill it."""


@dataclass(frozen=True)
class Scale:
    """A range of relative changes, from `low` to `high`, both sides of no effect."""

    low: float
    high: float

    def place(self, change: float) -> float:
        """Where a change lies, in per cent, at the edge where it is beyond."""
        share = (change - self.low) / (self.high - self.low)
        return round(100.0 * min(1.0, max(0.0, share)), 2)


@dataclass(frozen=True)
class Glyph:
    """Where the marks of one effect lie, in per cent."""

    zero: float
    least: float
    low: float
    high: float
    middle: float


def scale_of(effects: Iterable[EffectView], min_effect: float = 0.0) -> Scale:
    """A scale that holds all these effects with their intervals, no effect, and the smallest worth having."""
    found = [value for each in effects for value in (each.relative, each.low, each.high) if value is not None]
    low, high = min([*found, -min_effect, -LEAST_REACH]), max([*found, LEAST_REACH])
    return Scale(max(low, -WIDEST if high > WIDEST else -1.0), min(high, WIDEST))


def glyph(effect: EffectView, min_effect: float, scale: Scale) -> Glyph:
    """The marks of an effect on a scale; one without an interval is a dot alone."""
    low = effect.relative if effect.low is None else effect.low
    high = effect.relative if effect.high is None else effect.high
    return Glyph(
        zero=scale.place(0.0),
        least=scale.place(-min_effect),
        low=scale.place(low),
        high=scale.place(high),
        middle=scale.place(effect.relative),
    )
