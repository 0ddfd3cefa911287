"""Moments have one form, in the zone of the machine that tells them, and that zone can be told beside it."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest

from configs.moments import format_clock, format_day, format_moment, format_utc, format_zone

AT = datetime(2026, 11, 28, 22, 8, 21, 900_000, UTC)


@pytest.fixture
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_berlin")
def test_a_moment_is_told_by_the_clock_of_the_machine_that_tells_it() -> None:
    late = AT + timedelta(hours=1)
    assert format_moment(AT) == "2026-11-28 23:08:21"
    assert (format_day(late), format_clock(late)) == ("2026-11-29", "00:08:21")
    assert (format_zone(AT), format_zone(datetime(2026, 7, 1, tzinfo=UTC))) == ("UTC+01:00", "UTC+02:00")


@pytest.mark.usefixtures("in_berlin")
def test_a_text_that_leaves_the_machine_tells_utc_and_says_so() -> None:
    assert format_utc(AT) == format_utc(AT.astimezone()) == "2026-11-28 22:08:21 UTC"


@pytest.mark.parametrize(
    ("hours", "told"), [(0, "UTC"), (5.5, "UTC+05:30"), (-3, "UTC-03:00")], ids=["UTC", "ahead", "behind"]
)
def test_a_zone_is_told_by_how_far_it_is_from_utc(hours: float, told: str) -> None:
    assert format_zone(AT, timezone(timedelta(hours=hours))) == told
