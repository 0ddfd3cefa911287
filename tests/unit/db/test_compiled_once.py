"""Test databases share what was compiled, and nothing else."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, text
from sqlalchemy.dialects.sqlite.base import SQLiteCompiler

from db.models import Configuration
from db.session import Database
from tests.new_database import new_database

DIGEST = "7" * 64


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[Database, Database]]:
    one, other = (new_database(tmp_path / name) for name in ("one", "other"))
    with one.write() as session:
        session.add(Configuration(digest=DIGEST, knobs={"a": 1}))
    yield one, other
    one.close()
    other.close()


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Every statement that is compiled from here on."""
    found: list[object] = []
    begin = SQLiteCompiler.__init__

    def told(self: SQLiteCompiler, dialect: Any, statement: Any, *words: Any, **more: Any) -> None:
        found.append(statement)
        begin(self, dialect, statement, *words, **more)

    monkeypatch.setattr(SQLiteCompiler, "__init__", told)
    return found


def test_a_statement_is_compiled_once_and_each_database_answers_with_its_own_rows(
    two: tuple[Database, Database], compiled: list[object]
) -> None:
    asked = select(Configuration.knobs).where(Configuration.digest == DIGEST)
    answers = []
    for database in two:
        with database.read() as session:
            answers.append(list(session.scalars(asked)))
    assert answers == [[{"a": 1}], []]
    assert len(compiled) <= 1  # none where another test asked the same before


def test_text_is_compiled_for_each_database(two: tuple[Database, Database], compiled: list[object]) -> None:
    for database in two:
        with database.read() as session:
            session.execute(text("SELECT * FROM configuration"))
    assert len(compiled) == 2
