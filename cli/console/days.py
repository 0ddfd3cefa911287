"""Where lines that stand in time and tell the hour alone come to another day."""

from __future__ import annotations

from datetime import datetime

from configs.moments import format_day, format_zone


class Days:
    """Tells the day of what comes next where it is another than that of what came before, with the time zone;
    of what comes first too, unless it is `known`. Days are those of this machine's clock."""

    def __init__(self, known: datetime | None = None) -> None:
        self._told = None if known is None else _day(known)

    def new(self, at: datetime) -> str | None:
        """Return the day of `at`, such as `2026-11-28 UTC`, where it has to be told; else None."""
        day = _day(at)
        if day == self._told:
            return None
        self._told = day
        return day


def _day(at: datetime) -> str:
    return f"{format_day(at)} {format_zone(at)}"
