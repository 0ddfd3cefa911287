"""A database URL is made sense of, or refused with what to write instead."""

from pathlib import Path

import pytest

from configs.errors import NotADatabase, UsageError
from db.address import Lying, look_at, parse_address


def test_a_file_is_named_by_its_path(tmp_path: Path) -> None:
    address = parse_address(f"sqlite:///{tmp_path}/a.db")
    assert address.path == tmp_path / "a.db"
    assert address.shown == f"{tmp_path}/a.db"


def test_the_home_folder_may_be_written_short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert parse_address("sqlite:///~/a.db").path == tmp_path / "a.db"


def test_a_password_is_never_shown() -> None:
    address = parse_address("postgresql+psycopg://me:secret@host/autoinfer")
    assert address.path is None
    assert "secret" not in address.shown
    assert "host/autoinfer" in address.shown


@pytest.mark.parametrize("scheme", ["postgresql", "postgresql+psycopg", "postgresql+psycopg2"])
def test_postgresql_is_spoken_to_by_one_driver_and_shown_without_it(scheme: str) -> None:
    address = parse_address(f"{scheme}://me@host/autoinfer")
    assert address.url.drivername == "postgresql+psycopg"
    assert address.shown == "postgresql://me@host/autoinfer"


@pytest.mark.parametrize(
    "url",
    ["postgresql://me:secret@host:port/x", "postgres:me:secret@host", "postgresql://h/x?password=secret"],
)
def test_a_refused_url_is_told_without_its_password(url: str) -> None:
    with pytest.raises(UsageError) as refusal:
        parse_address(url)
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "autoinfer.db",
        "mysql://host/name",
        "nonsense://x",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///a?mode=ro",
    ],
)
def test_what_is_no_shared_database_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(UsageError) as refusal:
        parse_address(url)
    assert "sqlite:///" in refusal.value.hint


def test_a_file_is_told_by_its_header(tmp_path: Path) -> None:
    file = tmp_path / "file"
    assert look_at(file) is Lying.NOTHING
    assert look_at(file / "beneath") is Lying.NOTHING
    file.write_bytes(b"")
    assert look_at(file) is Lying.NOTHING
    file.write_bytes(b"SQLite format 3\x00 and more")
    assert look_at(file) is Lying.DATABASE
    file.write_bytes(b"a shopping list")
    with pytest.raises(NotADatabase, match="not a database"):
        look_at(file)
    with pytest.raises(NotADatabase, match="is a folder"):
        look_at(tmp_path)
