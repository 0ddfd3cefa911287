"""The distributions of both arms on one axis: the share of samples at or below a value. Pure.

Positions are per cent of the plot, from its left and its top; a curve's path is in thousandths, to be
stretched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.charts.axis import Axis, Tick, axis_of

Steps = Sequence[tuple[float, float]]
"""Values, ascending, each with the share of samples at or below it."""

TAIL = 0.01
"""Share of the samples at either end that may lie outside the plot, so that an outlier flattens nothing."""

ROOM = 38.0
"""Per cent of the width that a label needs beside its mark on a phone."""

LABEL_LINE_PX = 15
"""From one line of a label to the next; each has two: the arm, and its median."""

SIZE = 1000
"""Width and height of a path's own space."""


@dataclass(frozen=True)
class Curve:
    """One arm: the path of its curve, where its median lies, and where its label stands beside that."""

    path: str
    median: float
    anchor: str
    shift: int
    rise: int


@dataclass(frozen=True)
class Cdf:
    """Both curves; `candidate` is None where one arm alone was measured."""

    ticks: tuple[Tick, ...]
    control: Curve
    candidate: Curve | None


def cdf(control: Steps, candidate: Steps | None) -> Cdf:
    """The curves of one arm or both, each of one step at least."""
    arms = [control] if candidate is None else [control, candidate]
    axis = axis_of([value for arm in arms for value in _inner(arm)])
    middles = [axis.place(_at(arm, 0.5)) for arm in arms]
    first = len(middles) == 1 or middles[0] <= middles[1]
    curves = [
        _curve(arm, axis, middle, left=(number == 0) == first)
        for number, (arm, middle) in enumerate(zip(arms, middles, strict=True))
    ]
    return Cdf(axis.ticks(), curves[0], curves[1] if candidate is not None else None)


def _curve(steps: Steps, axis: Axis, median: float, *, left: bool) -> Curve:
    """The label stands outside, away from the other arm, where there is room; else inside, off the line."""
    if left:
        anchor, shift, rise = ("end", -10, -6) if median >= ROOM else ("start", 10, 26)
    else:
        anchor, shift, rise = ("start", 12, -6) if median <= 100 - ROOM else ("end", -10, -36)
    return Curve(_path(steps, axis), median, anchor, shift, rise)


def _path(steps: Steps, axis: Axis) -> str:
    parts, below = [f"M0 {SIZE}"], float(SIZE)
    for value, share in steps:
        x, y = axis.place(value) * SIZE / 100, SIZE * (1 - share)
        parts.append(f"L{x:.1f} {below:.1f}L{x:.1f} {y:.1f}")
        below = y
    parts.append(f"L{SIZE} {below:.1f}")
    return "".join(parts)


def _inner(steps: Steps) -> tuple[float, float]:
    """The ends of an arm without its tails."""
    return _at(steps, TAIL), _at(steps, 1 - TAIL)


def _at(steps: Steps, share: float) -> float:
    """The least value that this share of the samples lies at or below."""
    return next((value for value, reached in steps if reached >= share - 1e-12), steps[-1][0])
