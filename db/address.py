"""Where a database lies: the URL made sense of, and the file behind it looked at before it is opened."""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from configs.errors import NotADatabase, PermissionRefused, UsageError

_SQLITE_HEADER = b"SQLite format 3\x00"

POSTGRESQL_DRIVER = "postgresql+psycopg"
"""The driver that speaks to PostgreSQL, whatever a URL names: the only one that is tested."""

_SECRETS = ("password", "sslpassword")
"""Parameters of libpq that no URL may carry behind its question mark, where it would be shown."""

_PASSWORD = re.compile(r"(?<=:)[^:@]*(?=@)")
"""What may be a password in a text that is no URL."""


class Lying(Enum):
    """What the file of an SQLite database looks like from outside."""

    NOTHING = auto()
    """No file, or an empty one."""
    DATABASE = auto()
    """A file with SQLite's header."""


@dataclass(frozen=True, slots=True)
class Address:
    """A database URL; `path` is the file behind it, for SQLite alone."""

    url: URL
    path: Path | None

    @property
    def shown(self) -> str:
        """The address as it may be shown: the path, or the URL without its password."""
        if self.path:
            return str(self.path)
        return self.url.set(drivername="postgresql").render_as_string(hide_password=True)


def parse_address(url: str) -> Address:
    """Return the address that `url` names, such as `sqlite:////home/me/autoinfer.db`.

    Raises `UsageError` when it is no database URL, another kind of database, or in memory.
    """
    masked = _PASSWORD.sub("***", url)
    try:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
    except (ArgumentError, ValueError):
        raise _unusable(f"{masked!r} is not a database URL.") from None
    if backend == "postgresql":
        if any(name in parsed.query for name in _SECRETS):
            raise UsageError(
                "The database URL carries a password among its parameters, where it would be shown.",
                "Leave it out and give it by the file that PGPASSFILE names, or by PGPASSWORD.",
            )
        return Address(parsed.set(drivername=POSTGRESQL_DRIVER), None)
    if backend != "sqlite":
        raise _unusable(f"{parsed.render_as_string()!r} names a {backend} database.")
    if not parsed.database or parsed.database == ":memory:" or parsed.query:
        raise _unusable(f"{masked!r} names no file of its own; loop, workers and pages must share one.")
    # As written: SQLAlchemy 2.1 decodes %40 in a path and 2.0 does not.
    path = Path(url.partition("://")[2].removeprefix("/")).expanduser()
    return Address(parsed.set(database=str(path)), path)


def look_at(path: Path) -> Lying:
    """Return what lies at `path`, without touching it.

    Raises `PermissionRefused` when it may not be read, `NotADatabase` when it is a folder or another file.
    """
    try:
        with path.open("rb") as file:
            header = file.read(len(_SQLITE_HEADER))
    except (FileNotFoundError, NotADirectoryError):
        return Lying.NOTHING
    except IsADirectoryError:
        raise NotADatabase(
            f"{path} is a folder, not a database.", f"Name a file in it, such as {path / 'autoinfer.db'}."
        ) from None
    except PermissionError:
        raise PermissionRefused(
            f"You may not read the database {path}.", "Ask its owner, or name another with --db."
        ) from None
    if not header:
        return Lying.NOTHING
    if header != _SQLITE_HEADER:
        raise NotADatabase(
            f"{path} is not a database: it does not begin as an SQLite file does.",
            "Nothing was changed in it. Name another file with --db.",
        )
    return Lying.DATABASE


def make_folder(path: Path) -> None:
    """Make the folder of the database file `path`; raises `OSError`, also when it is not writable."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path.parent))


def _unusable(message: str) -> UsageError:
    return UsageError(
        message,
        "Write sqlite:///relative.db, sqlite:////absolute/path.db or postgresql://user@host/name.",
    )
