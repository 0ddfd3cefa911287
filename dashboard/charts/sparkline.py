"""A sparkline: values in, points of polylines out, in a box that the page stretches."""

from __future__ import annotations

from collections.abc import Sequence

WIDTH, HEIGHT = 100.0, 30.0
"""The box of the SVG; the curve alone is stretched, its stroke is not."""

MARGIN = 2.0
"""Room above the highest and below the lowest value, so that a stroke is not cut."""


def polylines(values: Sequence[float | None], low: float, high: float) -> tuple[str, ...]:
    """The `points` of a polyline for each run of values without a gap, evenly spaced from left to right.

    `low` lies at the bottom and `high` at the top; what is outside them is drawn at the edge. A value between
    two gaps becomes a short line, so that it can be seen.
    """
    step = WIDTH / max(1, len(values) - 1)
    found: list[list[str]] = [[]]
    for place, value in enumerate(values):
        if value is None:
            found.append([])
        else:
            found[-1].append(f"{place * step:.1f},{_height(value, low, high):.1f}")
    return tuple(" ".join(run if len(run) > 1 else _short(run[0], step)) for run in found if run)


def _height(value: float, low: float, high: float) -> float:
    share = (value - low) / (high - low) if high > low else 0.0
    return HEIGHT - MARGIN - min(1.0, max(0.0, share)) * (HEIGHT - 2 * MARGIN)


def _short(point: str, step: float) -> list[str]:
    across, height = point.split(",")
    middle = float(across)
    return [f"{max(0.0, middle - step / 2):.1f},{height}", f"{min(WIDTH, middle + step / 2):.1f},{height}"]
