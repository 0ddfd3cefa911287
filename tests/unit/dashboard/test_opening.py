"""Which tokens open a dashboard that other machines can reach, and what is printed of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from configs.errors import UsageError
from dashboard.web.opening import LARGEST_BYTES, opened_by, read_token
from db.access_tokens import give
from db.session import Database
from tests.new_database import new_database

TOKEN = "a-token-of-some-length"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = new_database(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    return path


def test_a_files_token_opens_it_beside_stored_ones_and_is_told_nowhere(
    database: Database, file: Path
) -> None:
    with database.write() as session:
        stored = give(session, "laptop")
    opened = opened_by(database, file)
    assert opened.access.asks
    assert [opened.access.allows(each) for each in (TOKEN, stored, f"{TOKEN}\n", "")] == [
        True,
        True,
        False,
        False,
    ]
    assert opened.suffix == ""
    assert TOKEN not in repr(opened) + "".join(opened.told)
    assert str(file) in opened.told[0]


def test_where_a_token_is_stored_none_is_made_or_printed(database: Database) -> None:
    with database.write() as session:
        stored = give(session, "laptop")
    opened = opened_by(database, None)
    assert opened.suffix == ""
    assert "autoinfer token" in opened.told[0]
    assert opened.access.allows(stored)


def test_where_there_is_no_other_each_server_prints_one_of_its_own(database: Database) -> None:
    one, other = opened_by(database, None), opened_by(database, None)
    token = one.suffix.removeprefix("/?token=")
    assert (one.access.allows(token), other.access.allows(token)) == (True, False)


def test_a_token_that_is_made_later_opens_it_too(database: Database) -> None:
    opened = opened_by(database, None)
    with database.write() as session:
        stored = give(session, "laptop")
    assert opened.access.allows(stored)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "holds no token"),
        (b"  \n", "holds no token"),
        (b"two words of it, and more", "holds no token"),
        ("sch\u00f6nes langes Wort".encode(), "holds no token"),
        (b"\xff\xfe\x00" * 9, "holds no token"),
        (b"a" * (LARGEST_BYTES + 1), "holds no token"),
        (b"fifteen-of-them", "has 15 characters, and must have 16"),
    ],
)
def test_a_file_without_a_token_is_refused_in_a_sentence_without_what_is_in_it(
    tmp_path: Path, content: bytes, said: str
) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=said) as refused:
        read_token(path)
    words = content.decode(errors="replace").split()
    assert all(word not in str(refused.value) for word in words if len(word) > 9)


@pytest.mark.parametrize("place", ["none", "."])
def test_a_file_that_is_not_there_is_told(tmp_path: Path, place: str) -> None:
    with pytest.raises(UsageError, match="There is no file"):
        read_token(tmp_path / place)
