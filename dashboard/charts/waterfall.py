"""The waterfall from the baseline to the best: where its bars lie, in per cent of the width. Pure.

One scale for all rows, from 0 to the largest time. A row of an end is its floor and what lies above it; a row
of a step is what it won, from where it came to where it went, with what is left of the time behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LETTER_PX, AROUND_PX = 5.3, 18.0
"""Pixels that a letter of a label takes on average, and what is left free around the label, before it and
behind. Four labels took 4.6 to 5.2 a letter in Chromium (`getComputedTextLength()` over their letters)."""

WIDE_PX, NARROW_PX = 440.0, 320.0
"""Width of a whole row's bars in pixels, on a window of 1,200 pixels and more, and on a phone."""

GAP = 0.16
"""Space between two bars of an end's row, per cent."""


@dataclass(frozen=True)
class Bar:
    """A bar: where it begins and how wide it is, per cent; `shade` is its class, `label` empty where it
    would not fit on a wide window, and `is_narrow` tells whether it fits on a phone, too."""

    x: float
    width: float
    shade: str
    label: str = ""
    is_narrow: bool = True


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
            label = segment.label if _holds(drawn, segment.label, WIDE_PX) else ""
            bars.append(Bar(at, drawn, segment.shade, label, _holds(drawn, label, NARROW_PX)))
        at += width
    return tuple(bars)


def step(before_ms: float, after_ms: float, most_ms: float) -> tuple[Bar, ...]:
    """The bars of a step: what is left as a ghost, and what it won; or what it lost, where it is slower."""
    low, high = sorted((before_ms, after_ms))
    left, right = 100.0 * low / most_ms, 100.0 * high / most_ms
    return Bar(0.0, left, "w-ghost"), Bar(left, right - left, "w-won" if after_ms <= before_ms else "w-lost")


def _holds(width: float, label: str, row_px: float) -> bool:
    """Whether a bar, its width in per cent of the row's, has room for its label."""
    return width / 100.0 * row_px >= LETTER_PX * len(label) + AROUND_PX


def place(ms: float, most_ms: float) -> float:
    """Where a time lies, per cent."""
    return 100.0 * ms / most_ms
