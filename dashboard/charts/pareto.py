"""Latency against quality: where points, front, limit and floor lie, in per cent of the plot. Pure.

The scale spans the front, the baseline, the floor and the limit, with room for half as much again to the
right and as much again above. What lies beyond is drawn on the edge as such, so that one configuration that
went wrong does not press all others into a corner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2

from dashboard.charts.axis import Axis, Tick

RIGHT_ROOM, TOP_ROOM = 1.5, 2.0
"""Largest latency and largest loss of quality on the scale, against the largest of what must be seen."""

PAD = 0.07
"""Share of the scale that is left free beyond what is on it."""

LEAST_LOSS = 0.005
"""Loss of quality that the scale spans at least, relative."""

CURVE = 1000
"""Units of the front's view box, either way."""

NEAR_X, NEAR_Y = 16.0, 7.0
"""Per cent within which a second label would run into the first."""

LEFT_HALF = 50.0
"""Per cent up to which a label stands to the right of its point."""


@dataclass(frozen=True)
class Spot:
    """A configuration: latency in ms, relative loss of quality, what it is called and where it leads.

    `label` stands beside it, empty for none; `count` configurations lie there.
    """

    latency_ms: float
    loss: float
    title: str
    url: str | None
    label: str = ""
    count: int = 1
    is_best: bool = False
    is_baseline: bool = False
    is_front: bool = False


@dataclass(frozen=True)
class Mark:
    """A spot as it is drawn: its place in per cent, its radius in px, its class and its label's side."""

    x: float
    y: float
    radius: float
    shade: str
    title: str
    url: str | None
    label: str
    anchor: str
    dx: int


@dataclass(frozen=True)
class Line:
    """A line across the plot at a place in per cent, with its label: `low` at its lower end."""

    place: float
    label: str
    anchor: str = "start"
    low: bool = False


@dataclass(frozen=True)
class Plot:
    """Everything that the template draws; `path` is the front in a box of `CURVE`."""

    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    path: str
    limit: Line | None
    floor: Line | None
    marks: tuple[Mark, ...]


def pareto_plot(
    spots: Sequence[Spot], *, limit: float | None, floor_ms: float | None, limit_label: str, floor_label: str
) -> Plot | None:
    """The plot of these spots, of which those of the front come in the order of latency; None for none."""
    if not spots:
        return None
    across = _across(spots, floor_ms)
    up = _up(spots, limit)
    marks: list[Mark] = []
    for spot in sorted(spots, key=lambda each: (each.is_front or each.is_baseline, each.is_best)):
        marks.append(_mark(spot, across, up))
    return Plot(
        x_ticks=across.ticks(),
        y_ticks=tuple(
            Tick(
                100 - tick.place,
                tick.label
                if tick.label.startswith("\u2212") or not _digits(tick.label)
                else f"+{tick.label}",
            )
            for tick in Axis(100 * up.low, 100 * up.high).ticks()
        ),
        path=_front_path([spot for spot in spots if spot.is_front], across, up),
        limit=None if limit is None else Line(100 - up.place(limit), limit_label, "end"),
        floor=None if floor_ms is None else _floor(across.place(floor_ms), floor_label, spots, across),
        marks=tuple(_labelled(marks)),
    )


def _floor(place: float, label: str, spots: Sequence[Spot], across: Axis) -> Line:
    """The floor; the front falls from the top at its fastest, and no name is written across it."""
    right = place < LEFT_HALF
    fastest = min((across.place(spot.latency_ms) for spot in spots if spot.is_front), default=100.0)
    return Line(place, label, "start" if right else "end", right and fastest - place < NEAR_X)


def _across(spots: Sequence[Spot], floor_ms: float | None) -> Axis:
    seen = [spot.latency_ms for spot in spots if spot.is_front or spot.is_baseline] or [
        spot.latency_ms for spot in spots
    ]
    high = min(max(spot.latency_ms for spot in spots), RIGHT_ROOM * max(seen))
    low = min([*(spot.latency_ms for spot in spots), *([] if floor_ms is None else [floor_ms])])
    reach = max(high - low, high / 10)
    return Axis(max(0.0, low - PAD * reach), high + PAD * reach)


def _up(spots: Sequence[Spot], limit: float | None) -> Axis:
    seen = [0.0, LEAST_LOSS, *([] if limit is None else [limit])]
    high = max(max(seen), min(max(spot.loss for spot in spots), TOP_ROOM * max(seen)))
    low = min(0.0, max(min(spot.loss for spot in spots), -TOP_ROOM * max(seen)))
    high = max(high, 1.6 * (limit or 0.0))
    reach = high - low
    return Axis(low - 1.5 * PAD * reach, high + PAD * reach)


def _mark(spot: Spot, across: Axis, up: Axis) -> Mark:
    x, y = across.place(spot.latency_ms), 100 - up.place(spot.loss)
    beyond = x > 100 or y < 0 or y > 100
    if spot.is_best:
        shade, radius = "pt-best", 6.0
    elif spot.is_baseline:
        shade, radius = "pt-base", 4.5
    elif beyond:
        shade, radius = "pt-out", 3.5
    elif spot.is_front:
        shade, radius = "pt", 4.0
    else:
        shade, radius = "pt-dom", min(2.5 + log2(spot.count), 8.0)
    right = x < LEFT_HALF
    return Mark(
        x=round(min(max(x, 0.0), 100.0), 2),
        y=round(min(max(y, 0.0), 100.0), 2),
        radius=round(radius, 1),
        shade=shade,
        title=f"{spot.title}, beyond the scale" if beyond else spot.title,
        url=spot.url,
        label=spot.label,
        anchor="start" if right else "end",
        dx=10 if right else -10,
    )


def _front_path(front: Sequence[Spot], across: Axis, up: Axis) -> str:
    """From the top down to the fastest, in steps to the slowest, and on to the right."""
    if not front:
        return ""
    scale = CURVE / 100
    places = [(scale * across.place(each.latency_ms), scale * (100 - up.place(each.loss))) for each in front]
    path = f"M{places[0][0]:.1f} 0"
    height = 0.0
    for x, y in places:
        path += f"L{x:.1f} {height:.1f}L{x:.1f} {y:.1f}" if height else f"L{x:.1f} {y:.1f}"
        height = y
    return f"{path}L{CURVE} {height:.1f}"


def _labelled(marks: Sequence[Mark]) -> list[Mark]:
    """The marks, each label left out that would run into one that matters more: a later mark's."""
    placed: list[Mark] = []
    kept: list[Mark] = []
    for mark in reversed(marks):
        clash = mark.label and any(
            abs(mark.x - other.x) < NEAR_X and abs(mark.y - other.y) < NEAR_Y for other in placed
        )
        shown = mark if not clash else Mark(**{**mark.__dict__, "label": ""})
        if shown.label:
            placed.append(shown)
        kept.append(shown)
    return kept[::-1]


def _digits(label: str) -> bool:
    """Whether a tick's label is other than zero."""
    return any(character in "123456789" for character in label)
