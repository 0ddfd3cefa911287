"""The database's clock: the only clock that leases and timestamps are taken from.

Workers on several machines disagree about the time; the database does not disagree with itself. An instant is
stored as whole milliseconds since 1970-01-01 UTC, in a column that both SQLite and PostgreSQL index and add
to, and is read back as an aware `datetime`. `CURRENT_TIMESTAMP` would not do: SQLite's has a resolution of
one second, PostgreSQL's stands still within a transaction.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, bindparam, type_coerce
from sqlalchemy.engine import Dialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_UNIX_EPOCH_JULIAN_DAY = 2440587.5
"""1970-01-01T00:00Z as a Julian day, the unit of SQLite's `julianday`."""
_MS_PER_DAY = 86_400_000
_MS_PER_S = 1000


class Instant(TypeDecorator[datetime]):
    """An aware UTC `datetime` with millisecond resolution, stored as milliseconds since the epoch."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        """Return milliseconds since the epoch; a naive `datetime` raises `ValueError`."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"an instant needs a time zone, got the naive {value!r}")
        return (value - _EPOCH) // _MILLISECOND

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:
        """Return the aware `datetime` of a stored number of milliseconds."""
        return None if value is None else _EPOCH + value * _MILLISECOND


class now(FunctionElement[datetime]):  # noqa: N801 - reads as the SQL function it is
    """The database's present instant, as an SQL expression."""

    type = Instant()
    inherit_cache = True


@compiles(now, "sqlite")
def _sqlite_now(element: now, compiler: SQLCompiler, **kw: Any) -> str:
    return f"CAST(ROUND((julianday('now') - {_UNIX_EPOCH_JULIAN_DAY}) * {_MS_PER_DAY}) AS INTEGER)"


@compiles(now, "postgresql")
def _postgresql_now(element: now, compiler: SQLCompiler, **kw: Any) -> str:
    return f"CAST(FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * {_MS_PER_S}) AS BIGINT)"


def after(seconds: float) -> ColumnElement[datetime]:
    """Return the SQL expression for `seconds` (may be negative) after the database's present instant."""
    offset_ms = bindparam(None, round(seconds * _MS_PER_S), BigInteger)
    return type_coerce(type_coerce(now(), BigInteger) + offset_ms, Instant)
