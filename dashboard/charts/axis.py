"""Axes: a range that holds the values, and round numbers on it. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
"""What a step between ticks may be, times a power of ten."""

PAD = 0.06
"""Share of a range that is left free at either end."""


LEAST_REACH = 1e-300
"""What differs by less is one value: a tick of its range could not be told from nothing."""


@dataclass(frozen=True)
class Tick:
    """A round number on an axis: where it lies in per cent, and its text."""

    place: float
    label: str


@dataclass(frozen=True)
class Axis:
    """A range of values, `low` below `high`."""

    low: float
    high: float

    def place(self, value: float) -> float:
        """Where a value lies, in per cent of the range from its low end; not cut off."""
        return round(100 * (value - self.low) / (self.high - self.low), 3)

    def ticks(self, about: int = 5) -> tuple[Tick, ...]:
        """About so many round numbers within the range."""
        raw = (self.high - self.low) / about
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(power * each for each in STEPS if power * each >= raw * (1 - 1e-9))
        decimals = max(0, -math.floor(math.log10(step) + 1e-9) + (step / power == STEPS[2]))
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return tuple(
            Tick(self.place(count * step), f"{count * step:,.{decimals}f}".replace("-", "\u2212"))
            for count in range(first, last + 1)
        )


def axis_of(values: Iterable[float]) -> Axis:
    """A range that holds all these values, padded; around a single one it is a tenth of it either way.

    Raises `ValueError` where there is none.
    """
    found = list(values)
    low, high = min(found), max(found)
    if high - low <= max(LEAST_REACH, 1e-9 * max(abs(low), abs(high))):
        reach = abs(low) / 10 if abs(low) > LEAST_REACH else 1.0
        return Axis(low - reach, high + reach)
    pad = PAD * (high - low)
    return Axis(low - pad, high + pad)
