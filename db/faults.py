"""What a driver or the operating system reports, put into words for the user, in this one place."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.exc import DBAPIError, IntegrityError, InterfaceError, OperationalError

from configs.errors import (
    AutoinferError,
    DatabaseDamaged,
    DatabaseError,
    DatabaseLocked,
    DatabaseMissing,
    DatabaseReadOnly,
    DatabaseUnreachable,
    DiskFull,
    NotADatabase,
    PermissionRefused,
)
from configs.room import no_room
from db.address import Address

_PRIMARY_CODE = 0xFF
"""SQLite keeps the primary result code in the lowest byte of an extended one."""

_LITTLE_SPACE_BYTES = 1 << 20
"""An I/O error with less space left is taken for a full disk: SQLite tells the two apart poorly."""

_TRIED_BYTES = 64 * 1024
"""What is written to hear what a disk says: more than what SQLite keeps beside a database at first."""

_CUT_OFF = "25P03"
"""PostgreSQL's state for a session that it ended because its transaction stood still too long."""

_NOT_ADMITTED = ("authentication failed", "no password supplied", "no pg_hba.conf entry")
"""What libpq's words hold when a server refuses a user; while connecting it tells no state."""

_READ_ONLY_TRANSACTION = "25006"
"""PostgreSQL's state for a write in a transaction that may only read, or on a standby."""

_INTACT = "What was stored before is intact."

ELSEWHERE = (
    "Name another folder for all data with --data-dir or AUTOINFER_DATA_DIR, or a database elsewhere with "
    "--db."
)
"""What to do about a place where no database can be."""


@contextmanager
def in_words(address: Address, *, reading: bool = False) -> Iterator[None]:
    """Turn a driver's error inside the block into an `AutoinferError`.

    Errors that no user can cause go on as they are: integrity errors (a broken constraint is for the caller
    to handle), and a write in a session that was opened for `reading`.
    """
    try:
        yield
    except IntegrityError:
        raise
    except (DBAPIError, sqlite3.Error) as error:
        if reading and _is_refused_write(error):
            raise
        if (told := _of_driver(error, address)) is None:
            raise
        raise told from error


def of_operating_system(error: OSError, address: Address) -> AutoinferError:
    """Return what to tell the user about an `error` met while making or reading the database's file."""
    where = error.filename or address.shown
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _disk_full(address, error.errno)
    if error.errno == errno.EROFS:
        return DatabaseReadOnly(f"The file system of {where} may only be read.", ELSEWHERE)
    if error.errno in (errno.EACCES, errno.EPERM):
        return PermissionRefused(f"You may not write at {where}.", ELSEWHERE)
    if error.errno in (errno.EEXIST, errno.ENOTDIR):
        return DatabaseError(f"{where} is a file, and the folder of the database is to be there.", ELSEWHERE)
    return DatabaseError(f"{where} cannot be used: {error.strerror or error}.", ELSEWHERE)


def check_there(address: Address) -> None:
    """Raise `DatabaseMissing` where the file is gone, or the disk that it lay on: whoever has it open would
    go on to write what nobody can find any more, and hear of nothing."""
    if address.path is not None and not address.path.exists():
        raise _gone(address)


def _gone(address: Address) -> DatabaseMissing:
    return DatabaseMissing(
        f"The database {address.shown} is gone.",
        "Was it deleted or moved, or its disk taken away? Bring it back, or name another with --db.",
    )


def _of_driver(error: DBAPIError | sqlite3.Error, address: Address) -> AutoinferError | None:
    original = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(original, sqlite3.Error):
        return _of_sqlite(original, address)
    return _of_postgresql(error, address)


def _is_refused_write(error: DBAPIError | sqlite3.Error) -> bool:
    # A file or folder that may only be read gives an extended code while reading; `query_only` the plain one.
    original = error.orig if isinstance(error, DBAPIError) else error
    refused_by_sqlite = getattr(original, "sqlite_errorcode", 0) == sqlite3.SQLITE_READONLY
    return refused_by_sqlite or getattr(original, "sqlstate", "") == _READ_ONLY_TRANSACTION


def _of_sqlite(error: sqlite3.Error, address: Address) -> AutoinferError | None:
    shown = address.shown
    match getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return DatabaseLocked(
                f"Another process keeps the database {shown} locked.",
                "Wait for it to end, or look for it with: fuser " + shown,
            )
        case sqlite3.SQLITE_READONLY:
            return _read_only(address)
        case sqlite3.SQLITE_FULL:
            return _disk_full(address)
        case sqlite3.SQLITE_NOTADB:
            return NotADatabase(
                f"{shown} is not a database, or it is encrypted.",
                "Nothing was changed in it. Name another file with --db.",
            )
        case sqlite3.SQLITE_CANTOPEN:
            return _cannot_open(address)
        case sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
            return PermissionRefused(f"You may not use the database {shown}.", "Ask its owner.")
        case sqlite3.SQLITE_CORRUPT:
            return DatabaseDamaged(
                f"The database {shown} is damaged ({error}).",
                "Copy the file away before anything else, then restore it from a copy or try: "
                f"sqlite3 {shown} .recover",
            )
        case sqlite3.SQLITE_IOERR:
            if _free_bytes(address) < _LITTLE_SPACE_BYTES:
                return _disk_full(address)
            refused = _refused_a_file(address)
            if isinstance(refused, DiskFull | DatabaseReadOnly):
                return refused
            return DatabaseDamaged(
                f"The disk under the database {shown} fails ({error}).", f"Check the disk. {_INTACT}"
            )
    return None


def _of_postgresql(error: DBAPIError | sqlite3.Error, address: Address) -> AutoinferError | None:
    original = error.orig if isinstance(error, DBAPIError) else None
    state = getattr(original, "sqlstate", None) or ""
    said = " ".join(str(original).split())
    if not state and any(words in said for words in _NOT_ADMITTED):
        state = "28000"
    if not state and "FATAL" in said and said.endswith("does not exist"):
        state = "28000" if "role " in said else "3D000"
    match state[:2], state:
        case _, "53100":
            return DiskFull(
                f"The disk of the server of {address.shown} is full.", f"Free space there. {_INTACT}"
            )
        case _, _ if state == _READ_ONLY_TRANSACTION:
            return DatabaseReadOnly(
                f"The database {address.shown} accepts no writes.", "Is it a standby? Name the primary."
            )
        case ("28", _) | (_, "42501"):
            return PermissionRefused(
                f"The database {address.shown} refuses this user.",
                "Check the user, its grants, and its password: PGPASSWORD, or the file of PGPASSFILE.",
            )
        case _, "55P03" | "40P01" | "40001":
            return DatabaseLocked(f"Another process keeps {address.shown} locked.", "Wait for it to end.")
        case _, "3D000":
            return DatabaseMissing(f"There is no database {address.shown}.", "Make it with: createdb")
        case _ if state == _CUT_OFF or (
            state[:2] in ("", "08", "53", "57") and isinstance(error, OperationalError | InterfaceError)
        ):
            why = (str(original).strip().splitlines() or ["no reason given"])[0].rstrip(".")
            return DatabaseUnreachable(
                f"The database {address.shown} does not answer ({why}).",
                "Is the server up, and the URL right?",
            )
    return None


def _cannot_open(address: Address) -> AutoinferError:
    path = address.path
    if path is None or not path.exists():
        return _gone(address)
    if not os.access(path, os.R_OK):
        return PermissionRefused(f"You may not read the database {path}.", "Ask its owner.")
    refused = _refused_a_file(address)
    return refused if isinstance(refused, DiskFull) else _read_only(address)


def _read_only(address: Address) -> DatabaseReadOnly:
    path = address.path
    if path is not None and not os.access(path.parent, os.W_OK):
        return DatabaseReadOnly(
            f"The folder of {path} may not be written to, and SQLite keeps files beside a database in use.",
            "Nothing was changed. Make the folder writable, or name another database with --db.",
        )
    beside = [str(each) for each in _files_beside(path) if not os.access(each, os.W_OK)] if path else []
    if path is not None and beside and os.access(path, os.W_OK):
        return DatabaseReadOnly(
            f"The database {path} may be written to, but {' and '.join(beside)} beside it may only be read.",
            f"Nothing was changed. Make it writable: chmod u+w {' '.join(beside)}",
        )
    return DatabaseReadOnly(
        f"The database {address.shown} may only be read.",
        "Nothing was changed. Make the file, and those beside it that begin with its name, writable, or name "
        "another database with --db.",
    )


def _files_beside(path: Path) -> list[Path]:
    """The files that SQLite keeps beside a database in use, where they exist."""
    return [each for end in ("-wal", "-shm") if (each := path.with_name(path.name + end)).exists()]


def _disk_full(address: Address, number: int | None = None) -> DiskFull:
    why = "" if address.path is None else f": {no_room(address.path.parent, number)}"
    return DiskFull(
        f"No space is left on the disk of {address.shown}{why}.",
        f"Free some, with autoinfer artifacts prune --unused-for 1d where artifacts lie there too. {_INTACT}",
    )


def _refused_a_file(address: Address) -> AutoinferError | None:
    """What the disk says to a small file beside the database, in words: SQLite keeps what it was told by the
    system to itself. None where it takes it."""
    if address.path is None:
        return None
    try:
        with tempfile.TemporaryFile(dir=address.path.parent) as file:
            file.write(bytes(_TRIED_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return of_operating_system(error, address)
    return None


def _free_bytes(address: Address) -> int:
    if address.path is None:
        return _LITTLE_SPACE_BYTES
    try:
        return shutil.disk_usage(address.path.parent).free
    except OSError:
        return _LITTLE_SPACE_BYTES
