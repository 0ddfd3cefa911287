"""Moments as people read them: `2026-11-28 21:08:21`, and `21:08:21` where lines stand below their day.

They are told in the time zone of the machine that tells them, which is said beside them once; what is stored,
or leaves the machine as text, says `UTC` with each. Answers for programs have ISO 8601 instead.
"""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo

_TO_THE_SECOND = len("2026-11-28T21:08:21")


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
    there = at.astimezone(zone)
    return f"UTC{there.isoformat(timespec='seconds')[_TO_THE_SECOND:]}" if there.utcoffset() else "UTC"


def format_utc(at: datetime) -> str:
    """A moment in a text that others read elsewhere, or later: `2026-11-28 21:08:21 UTC`."""
    return f"{format_moment(at, UTC)} UTC"
