"""Instants are aware, whole milliseconds, and the same on both databases."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.dialects import postgresql, sqlite

from db.clock import Instant, after, now

DIALECT = sqlite.dialect()


@given(st.datetimes(timezones=st.just(UTC)))
def test_an_instant_survives_storage_to_the_millisecond(at: datetime) -> None:
    stored = Instant().process_bind_param(at, DIALECT)
    assert isinstance(stored, int)
    assert Instant().process_result_value(stored, DIALECT) == at.replace(
        microsecond=at.microsecond // 1000 * 1000
    )


def test_another_time_zone_is_the_same_instant() -> None:
    at = datetime(2026, 1, 1, 12, tzinfo=UTC)
    there = at.astimezone(timezone(timedelta(hours=9)))
    assert Instant().process_bind_param(there, DIALECT) == Instant().process_bind_param(at, DIALECT)


def test_a_naive_datetime_is_refused() -> None:
    with pytest.raises(ValueError, match="time zone"):
        Instant().process_bind_param(datetime(2026, 1, 1), DIALECT)


def test_both_databases_are_asked_for_their_own_clock() -> None:
    assert "julianday('now')" in str(now().compile(dialect=sqlite.dialect()))
    assert "clock_timestamp()" in str(now().compile(dialect=postgresql.dialect()))
    assert "julianday('now')" in str(after(1.5).compile(dialect=sqlite.dialect()))
