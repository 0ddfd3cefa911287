"""The word that tells whether anything was committed since: after every write, and only then."""

import sqlite3
import threading
from pathlib import Path

from sqlalchemy import create_engine
from sqlalchemy.dialects import postgresql

from db import events
from db.event_kinds import EventKind
from db.session import Database
from db.standing import SNAPSHOT, Standing
from tests.new_database import FILE_NAME, new_database


def note(database: Database, text: str = "a note") -> None:
    with database.write() as session:
        events.append(session, EventKind.NOTE_ADDED, text)


def test_it_stays_while_nothing_is_written(database: Database) -> None:
    before = database.standing()
    with database.read() as session:
        events.last_id(session)
    assert database.standing() == before


def test_every_commit_changes_it_before_the_writer_goes_on(database: Database) -> None:
    seen = [database.standing()]
    for _ in range(5):
        note(database)
        seen.append(database.standing())
    assert len(set(seen)) == len(seen)


def test_a_write_of_another_process_changes_it(database: Database, tmp_path: Path) -> None:
    before = database.standing()
    other = sqlite3.connect(tmp_path / FILE_NAME)
    other.execute("INSERT INTO event (at, kind, text) VALUES (0, 'note.added', 'from elsewhere')")
    assert database.standing() == before
    other.commit()
    other.close()
    assert database.standing() != before


def test_what_is_rolled_back_leaves_it(database: Database) -> None:
    before = database.standing()
    try:
        with database.write() as session:
            events.append(session, EventKind.NOTE_ADDED, "no")
            raise KeyError
    except KeyError:
        pass
    assert database.standing() == before


def test_a_log_that_is_folded_into_the_file_hides_no_write(database: Database, tmp_path: Path) -> None:
    note(database)
    before = database.standing()
    other = sqlite3.connect(tmp_path / FILE_NAME)
    assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone() == (0, 0, 0)
    other.close()
    note(database)
    assert database.standing() != before


def test_threads_see_the_same_word_and_a_closed_database_opens_again(tmp_path: Path) -> None:
    database = new_database(tmp_path)
    first = database.standing()
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(database.standing())) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert set(found) == {first}
    database.close()
    again = database.standing()
    assert again != first  # the counts of two connections can't be compared
    database.close()


def test_what_can_not_be_asked_has_no_word(tmp_path: Path) -> None:
    nowhere = create_engine(f"sqlite:///{tmp_path / 'missing' / FILE_NAME}")
    assert Standing(nowhere).now() is None
    nowhere.dispose()


def test_postgresql_is_asked_which_transactions_are_seen() -> None:
    asked = str(SNAPSHOT.compile(dialect=postgresql.dialect()))
    assert asked.startswith("SELECT CAST(pg_current_snapshot() AS TEXT)")
