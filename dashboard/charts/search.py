"""The path of a search: each test's time over the baseline's, and the best so far. Pure.

Positions are per cent of the plot from its left and its top; the line of the best is a path in a box of
`SIZE`. What was not timed has no height, and stands on the upper edge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.charts.axis import Axis, Tick

SIZE = 1000
"""Width and height of a path's own space."""

MOST_OVER = 2.0
"""Time over the baseline's that the scale shows at most; what takes longer is on the edge."""

MOST_MARKS = 300
"""Tests that are drawn one by one, with their intervals; of more, each outcome is one path of dots."""

PAD = 0.08
"""Share of the scale that is left free at either end."""


@dataclass(frozen=True)
class SearchPoint:
    """A test: its time over the baseline's with its interval, None where it was not timed, and the best's so
    far, None before there is a baseline."""

    title: str
    outcome: str
    over: float | None
    low: float | None
    high: float | None
    best_over: float | None


@dataclass(frozen=True)
class Mark:
    """A test as it is drawn; `beyond` says that it lies on the edge."""

    x: float
    y: float
    y_low: float | None
    y_high: float | None
    outcome: str
    title: str
    beyond: bool


@dataclass(frozen=True)
class SearchPlot:
    """Everything that is drawn; `one` is where the baseline lies, `dots` are outcomes with their path, in
    place of marks that would be too many."""

    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    one: float
    path: str
    marks: tuple[Mark, ...]
    dots: tuple[tuple[str, str], ...] = ()


def search_plot(tested: Sequence[SearchPoint]) -> SearchPlot | None:
    """The plot of tests in their order; None where there is none."""
    if not tested:
        return None
    seen = [1.0]
    for each in tested:
        seen += [value for value in (each.over, each.low, each.high, each.best_over) if value is not None]
    low, high = min(seen), min(max(seen), MOST_OVER)
    reach = max(high - low, 0.02)
    axis = Axis(max(0.0, low - PAD * reach), high + PAD * reach)
    count = len(tested)
    marks, heights = [], []
    for place, each in enumerate(tested):
        x = _x(place, count)
        beyond = each.over is None or each.over > axis.high
        ends = (None, None) if beyond else (each.low, each.high)
        marks.append(
            Mark(
                x=x,
                y=0.0 if beyond or each.over is None else _y(each.over, axis),
                y_low=None if ends[0] is None else _y(ends[0], axis),
                y_high=None if ends[1] is None else max(0.0, _y(ends[1], axis)),
                outcome=each.outcome,
                title=each.title,
                beyond=beyond,
            )
        )
        heights.append((x, each.best_over))
    return SearchPlot(
        x_ticks=_numbers(count),
        y_ticks=tuple(
            Tick(round(100 - tick.place, 3), tick.label)
            for tick in Axis(100 * axis.low, 100 * axis.high).ticks()
        ),
        one=_y(1.0, axis),
        path=_steps(heights, axis),
        marks=tuple(marks) if count <= MOST_MARKS else (),
        dots=() if count <= MOST_MARKS else _dots(marks),
    )


def _dots(marks: Sequence[Mark]) -> tuple[tuple[str, str], ...]:
    """A path of round ends without length for each outcome."""
    found: dict[str, str] = {}
    for each in marks:
        place = f"M{SIZE / 100 * each.x:.0f} {SIZE / 100 * each.y:.0f}h0"
        found[each.outcome] = found.get(each.outcome, "") + place
    return tuple(found.items())


def _x(place: int, count: int) -> float:
    return round(100 * (place + 0.5) / count, 3)


def _y(value: float, axis: Axis) -> float:
    return round(100 - axis.place(value), 3)


def _steps(heights: Sequence[tuple[float, float | None]], axis: Axis) -> str:
    """From the baseline at the left edge in steps to the right one; each step is at its test."""
    scale, path, last = SIZE / 100, "", _y(1.0, axis)
    for x, over in heights:
        if over is None:
            continue
        y = _y(over, axis)
        path += (
            f"L{scale * x:.1f} {scale * last:.1f}"
            if path
            else f"M0 {scale * last:.1f}L{scale * x:.1f} {scale * last:.1f}"
        )
        path += f"L{scale * x:.1f} {scale * y:.1f}"
        last = y
    return f"{path}L{SIZE} {scale * last:.1f}" if path else ""


def _numbers(count: int) -> tuple[Tick, ...]:
    step = max(1, -(-count // 12))
    return tuple(Tick(_x(place, count), str(place + 1)) for place in range(0, count, step))
