"""Moments as people read them: `2026-11-28 21:08:21`, and `21:08:21` where lines stand below their day.

They are told in the time zone of the machine that tells them, each with the offset that it had then, which is
said beside them once; what is stored, or leaves the machine as text, says `UTC` with each. Answers for
programs have ISO 8601 instead.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo

_DAY_S = 86_400

OFFSETS_OF_DAYS = 366
"""For how many days back changes of a zone's offset are told, a year: what pages show is seldom older."""

OffsetSince = tuple[datetime, timedelta]
"""From when on a zone was how far ahead of UTC."""


def format_clock(at: datetime, zone: tzinfo | None = None) -> str:
    """The time of day, `21:08:21`, for lines whose day is told; in this machine's zone without another."""
    return f"{at.astimezone(zone):%H:%M:%S}"


def format_day(at: datetime, zone: tzinfo | None = None) -> str:
    """The day, `2026-11-28`, in this machine's zone without another."""
    return f"{at.astimezone(zone):%Y-%m-%d}"


def format_moment(at: datetime, zone: tzinfo | None = None) -> str:
    """The day and the time of day, `2026-11-28 21:08:21`, in this machine's zone without another."""
    return f"{format_day(at, zone)} {format_clock(at, zone)}"


def format_zone(at: datetime, zone: tzinfo | None = None) -> str:
    """Whose clock tells the moment: `UTC`, or how far it is ahead of that then, `UTC+01:00`."""
    return str(timezone(_offset(at, zone)))


def offsets_until(now: datetime, zone: tzinfo | None = None) -> tuple[OffsetSince, ...]:
    """The offsets of a zone over the last `OFFSETS_OF_DAYS`, oldest first, each from the second of its change
    on, in UTC; of this machine's zone without another. The first may have begun before."""
    day = now.astimezone(UTC).replace(microsecond=0) - timedelta(days=OFFSETS_OF_DAYS)
    found = [(day, _offset(day, zone))]
    for _ in range(OFFSETS_OF_DAYS):
        begin, before = day, found[-1][1]
        day = begin + timedelta(days=1)
        if _offset(day, zone) != before:
            second = bisect_left(
                range(_DAY_S),
                True,
                key=lambda passed: _offset(begin + timedelta(seconds=passed), zone) != before,
            )
            change = begin + timedelta(seconds=second)
            found.append((change, _offset(change, zone)))
    return tuple(found)


def format_offsets(offsets: Sequence[OffsetSince]) -> str:
    """Whose clock tells moments: `in UTC+01:00`, and where that changed within the days that are told, which
    of them it told: `of the last year in UTC+01:00, from 2026-03-29 to 2026-10-25 in UTC+02:00`."""
    _, present = offsets[-1]
    others = [
        f"{f'from {_day_at(*offsets[place])} to' if place else 'until'} {_day_at(*offsets[place + 1])}"
        f" in {timezone(offset)}"
        for place, (_, offset) in enumerate(offsets[:-1])
        if offset != present
    ]
    return ", ".join((f"{'of the last year ' if others else ''}in {timezone(present)}", *others))


def _offset(at: datetime, zone: tzinfo | None) -> timedelta:
    return at.astimezone(zone).utcoffset() or timedelta()


def _day_at(at: datetime, offset: timedelta) -> str:
    return format_day(at, timezone(offset))


def format_utc(at: datetime) -> str:
    """A moment in a text that others read elsewhere, or later: `2026-11-28 21:08:21 UTC`."""
    return f"{format_moment(at, UTC)} UTC"
