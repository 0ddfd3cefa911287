"""Errors of drivers and of the operating system become sentences, without a driver at hand."""

import errno
import os
from pathlib import Path

import pytest
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, OperationalError, ProgrammingError

from configs.errors import (
    AutoinferError,
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


def test_a_user_error_raised_inside_passes_through(tmp_path: Path) -> None:
    with pytest.raises(DiskFull), in_words(FILE):
        raise DiskFull("Full.", "Free some.")
