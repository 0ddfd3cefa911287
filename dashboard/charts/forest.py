"""A forest plot: the effect of each campaign with its interval, and that of all together. Pure.

Positions are per cent of the plot, from its left, on one axis that all rows share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.charts.axis import Axis, Tick, axis_of

LEAST_PX, MOST_PX = 5.0, 13.0
"""Side of the square of a campaign without weight, and of one with all of it."""


@dataclass(frozen=True)
class Effect:
    """An effect and its interval, in per cent or points; `weight` is its share of the pooled one."""

    middle: float
    low: float
    high: float
    weight: float = 1.0


@dataclass(frozen=True)
class Span:
    """Where an interval lies: its ends, its middle, and the side of the square on it, in pixels."""

    low: float
    middle: float
    high: float
    side_px: float

    @property
    def width(self) -> float:
        """From end to end."""
        return round(self.high - self.low, 3)

    @property
    def inner(self) -> float:
        """Where the middle lies between the ends, per cent of the width."""
        return round(100 * (self.middle - self.low) / self.width, 2) if self.width else 50.0


@dataclass(frozen=True)
class Forest:
    """Everything that is drawn; `together` and `predicted` are None of a single campaign."""

    ticks: tuple[Tick, ...]
    zero: float
    worth: float | None
    rows: tuple[Span, ...]
    together: Span | None
    predicted: Span | None


def forest_chart(
    campaigns: Sequence[Effect], together: Effect | None, predicted: Effect | None, worth: float | None
) -> Forest:
    """The plot of at least one campaign; `worth` is the effect worth having, as the axis counts it."""
    shown = [*campaigns, *(each for each in (together, predicted) if each is not None)]
    values = [0.0, *(value for each in shown for value in (each.low, each.middle, each.high))]
    axis = axis_of(values if worth is None else [*values, worth])
    return Forest(
        ticks=tuple(Tick(tick.place, _signed(tick.label)) for tick in axis.ticks(6)),
        zero=axis.place(0.0),
        worth=None if worth is None else axis.place(worth),
        rows=tuple(_span(each, axis) for each in campaigns),
        together=None if together is None else _span(together, axis),
        predicted=None if predicted is None else _span(predicted, axis),
    )


def _span(each: Effect, axis: Axis) -> Span:
    side_px = LEAST_PX + (MOST_PX - LEAST_PX) * each.weight
    return Span(axis.place(each.low), axis.place(each.middle), axis.place(each.high), round(side_px, 1))


def _signed(label: str) -> str:
    return label if label.startswith("\u2212") or label.strip("0.,") == "" else f"+{label}"
