"""What Modal's own bill has for the app, by day. It knows apps and hours, and no single call."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta

from experiments.executors.modal.client import in_our_words, library
from experiments.executors.modal.protocol import APP_NAME

HOURLY = "h"
"""The finest that Modal reports; an hour that is not over is left out by it."""


def billed_by_day(days: int, now: datetime) -> Mapping[date, float]:
    """US dollars of the app on the last so many days (UTC), today with its whole hours; a day without use is
    missing.

    Raises `ModalUnreachable` and, where the token may not see the bill, `AutoinferError`.
    """
    first = datetime.combine(now.astimezone(UTC).date() - timedelta(days=days - 1), time(), UTC)
    found: dict[date, float] = defaultdict(float)
    with in_our_words():
        workspace = library().Workspace.from_context()
        # the library takes no other time zone object than this one for UTC
        for item in workspace.billing.report(start=first, end=now.astimezone(UTC), resolution=HOURLY):
            if item.description == APP_NAME:
                found[item.interval_start.astimezone(UTC).date()] += float(item.cost)
    return dict(found)
