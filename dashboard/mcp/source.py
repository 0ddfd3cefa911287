"""The database behind the server: opened when it is first asked for, so that a client may start before a
campaign does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from sqlalchemy.orm import Session

from db import events
from db.session import BUSY_TIMEOUT_S, Database, open_database


class Source:
    """One database for all tools, shared by threads."""

    def __init__(self, url: str, busy_timeout_s: float = BUSY_TIMEOUT_S) -> None:
        self._url, self._busy_timeout_s = url, busy_timeout_s
        self._lock = Lock()
        self._database: Database | None = None

    @property
    def database(self) -> Database:
        """The database; raises as `open_database` while it can't be had, and is tried again then."""
        with self._lock:
            if self._database is None:
                self._database = open_database(self._url, busy_timeout_s=self._busy_timeout_s)
            return self._database

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A session on a snapshot, as `Database.read`."""
        with self.database.read() as session:
            yield session

    @contextmanager
    def write(self, author: str) -> Iterator[Session]:
        """A write transaction, as `Database.write`, whose events say who caused them."""
        with self.database.write() as session:
            events.sign(session, author)
            yield session

    def close(self) -> None:
        """Close what was opened."""
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None
