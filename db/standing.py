"""Which state of a database a reader would see at this moment: a word that changes with every commit.

What was read stays true for as long as the word does, so what was made of it can be kept. SQLite counts the
commits of others that a connection has seen (`PRAGMA data_version`; SQLite's documentation, section "PRAGMA
data_version"); PostgreSQL tells which transactions a snapshot sees (`pg_current_snapshot`; its documentation,
table 9.83).
"""

from __future__ import annotations

from sqlite3 import Connection as SQLiteConnection
from sqlite3 import Error as SQLiteError
from threading import Lock

from sqlalchemy import Engine, PoolProxiedConnection, Text, cast, func, select
from sqlalchemy.exc import DBAPIError

SNAPSHOT = select(cast(func.pg_current_snapshot(), Text))
"""PostgreSQL's word: the transactions that are seen, as text."""


class Standing:
    """Looks at the database that a reading engine is of; may be asked by any thread, and opened again."""

    def __init__(self, reader: Engine) -> None:
        self._reader = reader
        self._lock = Lock()
        self._held: PoolProxiedConnection | None = None
        self._opened = 0

    def now(self) -> str | None:
        """The word: a later one is another if anything was committed between; None where it can't be told.

        Of SQLite it takes microseconds, and is None where it would have to wait.
        """
        try:
            if self._reader.dialect.name != "sqlite":
                with self._reader.connect() as connection:
                    return connection.execute(SNAPSHOT).scalar_one()
            with self._lock:
                (count,) = self._connection().execute("PRAGMA data_version").fetchone()
                return f"{self._opened}.{count}"
        except (DBAPIError, SQLiteError):
            return None

    def close(self) -> None:
        """Let go of the connection."""
        with self._lock:
            if self._held is not None:
                self._held.close()
                self._held = None

    def _connection(self) -> SQLiteConnection:
        """One connection, for the counts of two can't be compared, and which is never written through."""
        if self._held is None:
            self._held = self._reader.raw_connection()
            self._held.detach()
            self._opened += 1
            self._driver(self._held).execute("PRAGMA busy_timeout=0").close()
        return self._driver(self._held)

    @staticmethod
    def _driver(held: PoolProxiedConnection) -> SQLiteConnection:
        found = held.dbapi_connection  # a detached one has no record of its driver
        assert isinstance(found, SQLiteConnection)
        return found
