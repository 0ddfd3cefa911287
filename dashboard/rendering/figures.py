"""Figures as text: a true minus, a narrow space before units, as many digits as count."""

from __future__ import annotations

import re
from datetime import datetime

from configs.moments import format_clock, format_day, format_moment
from configs.quantities import format_duration, format_energy
from knowledge.figures import SHARES, number, signed
from knowledge.queries.spent.energy import EnergyView
from knowledge.queries.view import EffectView
from knowledge.telling.energy_words import energy_told

NARROW = "\u202f"

BEFORE_UNIT = re.compile(r"(?<=\d) ")
"""The space between a figure and its unit."""


def exact(value: float) -> str:
    """A number that was set, not measured: a whole one as it is, else to four digits, without zeros at its
    end: `0.05`, `1`, `2048`."""
    if isinstance(value, int):
        return str(value)
    text = number(value, 4)
    return text.rstrip("0").rstrip(".") if "." in text and "×" not in text else text


def whole(count: int) -> str:
    """A count with its thousands apart: `5,000`."""
    return f"{count:,}"


def unit(value: float | None, name: str, digits: int = 3) -> str:
    """A figure with its unit: `15.9 ms`; a dash where there is none."""
    return "–" if value is None else f"{number(value, digits)}{NARROW}{name}"


def percent(share: float, decimals: int = 1) -> str:
    """A relative change in percent with its sign."""
    return f"{signed(100 * share, decimals)}{NARROW}%"


def interval(low: float | None, high: float | None, decimals: int = 1) -> str:
    """The interval of a relative change in percent, in brackets; nothing where it is not known."""
    if low is None or high is None:
        return ""
    return f"[{signed(100 * low, decimals)}, {signed(100 * high, decimals)}]"


def effect(found: EffectView | None) -> str:
    """An effect in percent; of a share of items in points, of which more is better."""
    if found is None:
        return "–"
    if found.metric in SHARES:
        return f"{signed(-100 * found.relative)}{NARROW}points"
    return percent(found.relative)


def ends(found: EffectView | None) -> str:
    """The interval of an effect as `effect` tells it, in brackets; nothing where it is not known."""
    if found is None or found.low is None or found.high is None:
        return ""
    low, high = (-found.high, -found.low) if found.metric in SHARES else (found.low, found.high)
    return interval(low, high)


def reading(value: float, of_unit: str) -> str:
    """A device's reading without its unit, as many digits as it is worth: `21.4` GiB, `1,980` MHz."""
    decimals = 1 if of_unit == "GiB" and value < 100 else 0
    return f"{value:,.{decimals}f}"


def age(value_s: float) -> str:
    """How old something is, in whole seconds first: `8 s`, `3 min 10 s`."""
    return seconds(round(value_s))


def seconds(value: float | None) -> str:
    """A duration as `format_duration` tells it; a dash where there is none."""
    return "–" if value is None else BEFORE_UNIT.sub(NARROW, format_duration(value))


def kwh(energy_wh: float) -> str:
    """Energy as `format_energy` tells it."""
    return BEFORE_UNIT.sub(NARROW, format_energy(energy_wh))


def energy(found: EnergyView | None) -> str | None:
    """What cards took, as `energy_told` tells it."""
    told = energy_told(found)
    return None if told is None else BEFORE_UNIT.sub(NARROW, told)


def until(end: datetime, start: datetime) -> str:
    """The end of what began at `start`: the time of day, after the day if it is another."""
    return format_moment(end) if format_day(end) != format_day(start) else format_clock(end)


def instant(at: datetime) -> str:
    """A time for machines, as HTML's `datetime` attribute has it."""
    return at.isoformat()
