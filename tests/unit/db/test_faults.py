"""Errors of drivers and of the operating system become sentences, without a driver at hand."""

import errno
import os
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, OperationalError, ProgrammingError

from configs.errors import (
    AutoinferError,
    DatabaseDamaged,
    DatabaseError,
    DatabaseLocked,
    DatabaseMissing,
    DatabaseReadOnly,
    DatabaseUnreachable,
    DiskFull,
    PermissionRefused,
)
from db.address import parse_address
from db.faults import in_words, of_operating_system

SERVER = parse_address("postgresql+psycopg://me:secret@host/autoinfer")
FILE = parse_address("sqlite:////somewhere/a.db")


class ServerSaid(Exception):
    """What a PostgreSQL driver raises, as far as we look at it."""

    def __init__(self, sqlstate: str | None) -> None:
        super().__init__("the server's own words\nand its details")
        self.sqlstate = sqlstate


@pytest.mark.parametrize(
    ("sqlstate", "told"),
    [
        ("53100", DiskFull),
        ("25006", DatabaseReadOnly),
        ("42501", PermissionRefused),
        ("28P01", PermissionRefused),
        ("55P03", DatabaseLocked),
        ("3D000", DatabaseMissing),
        ("08006", DatabaseUnreachable),
        ("57P01", DatabaseUnreachable),
        ("25P03", DatabaseUnreachable),
        ("40P01", DatabaseLocked),
        (None, DatabaseUnreachable),
    ],
)
def test_a_servers_refusal_is_told_apart(sqlstate: str | None, told: type[AutoinferError]) -> None:
    with pytest.raises(told) as error, in_words(SERVER):
        raise OperationalError("SELECT 1", {}, ServerSaid(sqlstate))
    assert "host/autoinfer" in error.value.message
    assert "secret" not in str(error.value)
    assert error.value.hint
    assert error.value.exit_code == 1


@pytest.mark.parametrize("kind", [IntegrityError, DataError, ProgrammingError])
def test_a_mistake_of_ours_goes_on_as_it_is(kind: type[DBAPIError]) -> None:
    with pytest.raises(kind), in_words(SERVER):
        raise kind("SELECT 1", {}, ServerSaid(None))


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (errno.ENOSPC, DiskFull),
        (errno.EDQUOT, DiskFull),
        (errno.EROFS, DatabaseReadOnly),
        (errno.EACCES, PermissionRefused),
        (errno.ENAMETOOLONG, DatabaseError),
    ],
)
def test_the_operating_systems_refusal_is_told_apart(number: int, told: type[AutoinferError]) -> None:
    error = of_operating_system(OSError(number, os.strerror(number), "/somewhere"), FILE)
    assert type(error) is told
    assert "/somewhere" in error.message
    assert error.hint


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOENT, errno.EEXIST, errno.ENOTDIR])
def test_a_folder_of_data_that_can_t_be_used_is_told_with_how_to_name_another(number: int) -> None:
    error = of_operating_system(OSError(number, os.strerror(number), "/somewhere"), FILE)
    assert error.hint is not None
    for words in ("--data-dir", "AUTOINFER_DATA_DIR", "--db"):
        assert words in error.hint


def test_a_file_in_the_place_of_the_folder_is_told_as_one() -> None:
    error = of_operating_system(FileExistsError(errno.EEXIST, "File exists", "/somewhere"), FILE)
    assert error.message == "/somewhere is a file, and the folder of the database is to be there."


def test_a_user_error_raised_inside_passes_through(tmp_path: Path) -> None:
    with pytest.raises(DiskFull), in_words(FILE):
        raise DiskFull("Full.", "Free some.")


def of_sqlite(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("code", "number", "told", "says"),
    [
        (sqlite3.SQLITE_IOERR, errno.EDQUOT, DiskFull, "your quota there is used up"),
        (sqlite3.SQLITE_IOERR, errno.EROFS, DatabaseReadOnly, "may only be read"),
        (sqlite3.SQLITE_IOERR, errno.EIO, DatabaseDamaged, "The disk under the database"),
        (sqlite3.SQLITE_IOERR, None, DatabaseDamaged, "The disk under the database"),
        (sqlite3.SQLITE_CANTOPEN, errno.ENOSPC, DiskFull, "No space is left"),
        (sqlite3.SQLITE_CANTOPEN, None, DatabaseReadOnly, "may only be read"),
    ],
)
def test_what_sqlite_keeps_to_itself_the_disk_is_asked(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    number: int | None,
    told: type[AutoinferError],
    says: str,
) -> None:
    """A quota and a disk without inodes have bytes free; SQLite calls them a disk that fails, and a file that
    it can't open."""
    (tmp_path / "a.db").touch()
    if number is not None:

        def refuse(**_: object) -> None:
            raise OSError(number, os.strerror(number), str(tmp_path))

        monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with pytest.raises(told, match=says) as raised, in_words(parse_address(f"sqlite:///{tmp_path}/a.db")):
        raise of_sqlite(code)
    assert type(raised.value) is told
