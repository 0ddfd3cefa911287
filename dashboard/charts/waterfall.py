"""The waterfall from the baseline to the best: where its bars lie, in per cent of the width. Pure.

One scale for all rows, from 0 to the largest time. A row of an end is its floor and what lies above it; a row
of a step is what it won, from where it came to where it went, with what is left of the time behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LEAST_LABELLED = 21.0
"""Width in per cent from which a bar holds its label, on a phone too."""

GAP = 0.16
"""Space between two bars of an end's row, per cent."""


@dataclass(frozen=True)
class Bar:
    """A bar: where it begins and how wide it is, per cent; `shade` is its class, `label` empty where it
    would not fit."""

    x: float
    width: float
    shade: str
    label: str = ""


@dataclass(frozen=True)
class Segment:
    """A part of an end's time, in ms, with its class and what to write on it."""

    ms: float
    shade: str
    label: str = ""


def ends(segments: Sequence[Segment], most_ms: float) -> tuple[Bar, ...]:
    """The bars of a row that stands for a whole time: its segments one after the other."""
    bars, at = [], 0.0
    for segment in segments:
        width = 100.0 * segment.ms / most_ms
        if width > 0:
            drawn = max(width - (GAP if width > 2 * GAP else 0.0), 0.0)
            bars.append(Bar(at, drawn, segment.shade, segment.label if drawn >= LEAST_LABELLED else ""))
        at += width
    return tuple(bars)


def step(before_ms: float, after_ms: float, most_ms: float) -> tuple[Bar, ...]:
    """The bars of a step: what is left as a ghost, and what it won; or what it lost, where it is slower."""
    low, high = sorted((before_ms, after_ms))
    left, right = 100.0 * low / most_ms, 100.0 * high / most_ms
    return Bar(0.0, left, "w-ghost"), Bar(left, right - left, "w-won" if after_ms <= before_ms else "w-lost")


def place(ms: float, most_ms: float) -> float:
    """Where a time lies, per cent."""
    return 100.0 * ms / most_ms
