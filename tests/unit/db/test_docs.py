"""The pages on the data model and on events say what the code says."""

import re
from pathlib import Path

import pytest
from sqlalchemy import Table

from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Base

DOCS = Path(__file__).parents[3] / "docs"


def rows(page: str) -> dict[str, list[str]]:
    """Return the cells of a page's table rows by what stands in code in their first cell."""
    found = re.findall(r"^\| `([^`|]+)` \|(.*)\|$", (DOCS / page).read_text(), re.MULTILINE)
    return {name: [cell.strip() for cell in rest.split("|")] for name, rest in found}


def test_the_page_lists_the_tables_that_there_are() -> None:
    assert set(rows("data-model.md")) == set(Base.metadata.tables)


@pytest.mark.parametrize("table", Base.metadata.sorted_tables, ids=lambda table: table.name)
def test_every_table_is_explained_with_what_it_refers_to(table: Table) -> None:
    meaning, references = rows("data-model.md")[table.name]
    assert len(meaning) > 20
    stated = set(re.findall(r"`(\w+)` → (\w+)", references))
    assert stated == {(key.parent.name, key.column.table.name) for key in table.foreign_keys}


@pytest.mark.parametrize("noun", Noun)
def test_every_label_is_shown(noun: Noun) -> None:
    shown = re.findall(rf"`({noun.letter}-\d+)` {noun.word}", (DOCS / "data-model.md").read_text())
    assert len(shown) == 1
    assert shown[0] == format_label(noun, int(shown[0][2:]))


def test_every_kind_of_event_is_explained_in_its_own_words() -> None:
    assert rows("events.md") == {kind.value: [kind.meaning] for kind in EventKind}


def test_every_kind_is_written_somewhere_and_means_something_of_its_own() -> None:
    rooms = ("agent", "cli", "dashboard", "db", "experiments", "knowledge")
    files = [file for room in rooms for file in sorted((DOCS.parent / room).rglob("*.py"))]
    readers = ("dashboard/pages", "knowledge/queries")  # these list kinds and write none
    code = "".join(file.read_text() for file in files if not any(each in str(file) for each in readers))
    for kind in EventKind:
        assert re.search(rf"EventKind\.{kind.name}\b", code), f"nothing writes {kind.value}"
    assert len({kind.meaning for kind in EventKind}) == len(EventKind)


def test_kinds_are_dotted_names_and_their_meanings_sentences() -> None:
    for kind in EventKind:
        assert re.fullmatch(r"[a-z]+\.[a-z_]+", kind)
        assert kind.meaning.endswith(".")
