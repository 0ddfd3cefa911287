"""Predicted against measured: effects in, per-cent positions out, on axes of equal log scale. Pure.

A point on the diagonal came out as predicted. Its bar along is the prediction's interval, its bar upright
that of the measurement; what lies beyond the axes is cut off by the frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log1p

from dashboard.charts.axis import Axis, Tick, axis_of
from dashboard.rendering.figures import interval, percent
from knowledge.figures import signed
from knowledge.queries.claims.predictions import PredictedPoint
from knowledge.queries.view import EffectView

ROUND_CHANGES = (-0.95, -0.9, -0.8, -0.7, -0.6, -0.5, -0.4, -0.3, -0.2, -0.1, -0.05)
ROUND_RISES = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 9.0)
"""Relative changes that may be ticks, below and above none."""

LEAST_GAP = 11.0
"""Least distance between two ticks, in per cent of the axis."""

LOWEST = -0.99
"""The least change that has a place: −100 % has none on a log scale."""


@dataclass(frozen=True)
class Mark:
    """A point with the ends of both its intervals; `y` grows downwards, as SVG has it."""

    hypothesis: str
    outcome: str
    inside: bool
    title: str
    x: float
    y: float
    x_low: float
    x_high: float
    y_low: float
    y_high: float


@dataclass(frozen=True)
class PredictedMeasured:
    """The chart: marks, the ticks of both axes, where no effect lies."""

    marks: tuple[Mark, ...]
    ticks: tuple[Tick, ...]
    zero: float | None


def predicted_measured(points: Sequence[PredictedPoint]) -> PredictedMeasured | None:
    """Lay out the points, the oldest first so that the newest lie on top; None where there is none."""
    if not points:
        return None
    middles = [_log(each.relative) for point in points for each in (point.predicted, point.measured)]
    axis = axis_of([*middles, 0.0])
    zero = axis.place(0.0)
    return PredictedMeasured(
        marks=tuple(_mark(point, axis) for point in reversed(points)),
        ticks=_ticks(axis),
        zero=zero if 0 <= zero <= 100 else None,
    )


def _mark(point: PredictedPoint, axis: Axis) -> Mark:
    x_low, x, x_high = _ends(point.predicted, axis)
    y_low, y, y_high = _ends(point.measured, axis)
    up = [round(100 - each, 2) for each in (y, y_low, y_high)]
    across = [round(each, 2) for each in (x, x_low, x_high)]
    return Mark(
        hypothesis=point.hypothesis,
        outcome=point.outcome.value,
        inside=point.inside,
        title=f"{point.hypothesis}: predicted {_told(point.predicted)}, measured {_told(point.measured)}",
        x=across[0],
        y=up[0],
        x_low=across[1],
        x_high=across[2],
        y_low=up[1],
        y_high=up[2],
    )


def _told(effect: EffectView) -> str:
    return " ".join(filter(None, (percent(effect.relative), interval(effect.low, effect.high))))


def _ends(effect: EffectView, axis: Axis) -> tuple[float, float, float]:
    """Low end, middle and high end in per cent, the ends cut off at the frame."""
    middle = axis.place(_log(effect.relative))
    low = middle if effect.low is None else axis.place(_log(effect.low))
    high = middle if effect.high is None else axis.place(_log(effect.high))
    return max(low, 0.0), middle, min(high, 100.0)


def _log(relative: float) -> float:
    return log1p(max(relative, LOWEST))


def _ticks(axis: Axis) -> tuple[Tick, ...]:
    """Round changes on the axis: none first, then from the ends inwards, so far as there is room."""
    inner = [*ROUND_CHANGES, 0.0, *ROUND_RISES]
    within = [each for each in inner if axis.low <= log1p(each) <= axis.high]
    chosen: list[float] = []
    for each in sorted(within, key=lambda change: (change != 0, -abs(log1p(change)))):
        if all(abs(axis.place(log1p(each)) - axis.place(log1p(other))) >= LEAST_GAP for other in chosen):
            chosen.append(each)
    return tuple(
        Tick(axis.place(log1p(each)), signed(100 * each, 0) if each else "0") for each in sorted(chosen)
    )
