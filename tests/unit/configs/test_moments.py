"""Moments have one form, in the zone of the machine that tells them, and that zone can be told beside it."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from configs.moments import (
    format_clock,
    format_day,
    format_moment,
    format_offsets,
    format_utc,
    format_zone,
    offsets_until,
)

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
@pytest.mark.parametrize(
    ("now", "told"),
    [
        (AT, "of the last year in UTC+01:00, from 2026-03-29 to 2026-10-25 in UTC+02:00"),
        (
            datetime(2026, 7, 1, tzinfo=UTC),
            "of the last year in UTC+02:00, from 2025-10-26 to 2026-03-29 in UTC+01:00",
        ),
    ],
    ids=["winter", "summer"],
)
def test_of_a_zone_with_summer_time_the_other_half_of_the_year_is_told_too(now: datetime, told: str) -> None:
    assert format_offsets(offsets_until(now)) == told


@pytest.mark.usefixtures("in_berlin")
def test_offsets_change_at_the_second_at_which_clocks_do() -> None:
    (_, before), (spring, summer), (autumn, winter) = offsets_until(AT)
    assert (before, summer, winter) == (timedelta(hours=1), timedelta(hours=2), timedelta(hours=1))
    assert spring == datetime(2026, 3, 29, 1, tzinfo=UTC)
    assert autumn == datetime(2026, 10, 25, 1, tzinfo=UTC)


def test_of_a_zone_that_changed_for_good_the_time_before_is_told() -> None:
    told = format_offsets(offsets_until(datetime(2017, 2, 1, tzinfo=UTC), ZoneInfo("Europe/Istanbul")))
    assert told == "of the last year in UTC+03:00, until 2016-03-27 in UTC+02:00"


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=5, minutes=30))])
def test_of_a_zone_without_changes_one_offset_is_told(zone: timezone) -> None:
    assert format_offsets(offsets_until(AT, zone)) == f"in {format_zone(AT, zone)}"


@pytest.mark.usefixtures("in_berlin")
def test_a_text_that_leaves_the_machine_tells_utc_and_says_so() -> None:
    assert format_utc(AT) == format_utc(AT.astimezone()) == "2026-11-28 22:08:21 UTC"


@pytest.mark.parametrize(
    ("hours", "told"), [(0, "UTC"), (5.5, "UTC+05:30"), (-3, "UTC-03:00")], ids=["UTC", "ahead", "behind"]
)
def test_a_zone_is_told_by_how_far_it_is_from_utc(hours: float, told: str) -> None:
    assert format_zone(AT, timezone(timedelta(hours=hours))) == told
