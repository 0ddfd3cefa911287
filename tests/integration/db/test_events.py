"""The event log keeps its order, can be read from any id and followed without a gap."""

import sqlite3
import subprocess
import sys
import threading
from itertools import islice
from pathlib import Path

from db import events
from db.event_kinds import EventKind
from db.session import Database

ROOT = Path(__file__).parents[3]
WRITE_EVENTS = """
import sys
from db import events
from db.event_kinds import EventKind
from db.session import open_database
database = open_database(sys.argv[1])
for number in range(int(sys.argv[3])):
    with database.write() as session:
        events.append(session, EventKind.NOTE_ADDED, f"{sys.argv[2]} {number}")
"""


def add(
    database: Database, *texts: str, kind: EventKind = EventKind.NOTE_ADDED, campaign_id: int | None = None
) -> None:
    with database.write() as session:
        for text in texts:
            events.append(session, kind, text, campaign_id=campaign_id)


def test_an_event_is_read_as_it_was_written(database: Database, campaign_id: int) -> None:
    data = {"tpot_ms": 3.25, "levers": ["dtype"], "größer": None}
    with database.write() as session:
        event_id = events.append(
            session, EventKind.EXPERIMENT_JUDGED, "Supported.", "E-0001", campaign_id, data
        )
    with database.read() as session:
        (event,) = events.read(session)
    assert (event.id, event.kind, event.text) == (event_id, "experiment.judged", "Supported.")
    assert (event.subject, event.campaign_id, event.data) == ("E-0001", campaign_id, data)
    assert event.at.tzinfo is not None


def test_reading_goes_on_from_any_id(database: Database) -> None:
    add(database, "a", "b", "c", "d")
    with database.read() as session:
        assert [event.text for event in events.read(session, after_id=2)] == ["c", "d"]
        assert [event.text for event in events.read(session, after_id=1, limit=2)] == ["b", "c"]
        assert [event.text for event in events.latest(session, 3)] == ["b", "c", "d"]
        assert events.last_id(session) == 4


def test_kind_and_campaign_filter(database: Database, campaign_id: int) -> None:
    add(database, "outside")
    add(database, "inside", kind=EventKind.QUEUE_RANKED, campaign_id=campaign_id)
    with database.read() as session:
        for found in (
            events.read(session, kinds=[EventKind.QUEUE_RANKED]),
            events.read(session, campaign_id=campaign_id),
            events.latest(session, 5, kinds=[EventKind.QUEUE_RANKED], campaign_id=campaign_id),
        ):
            assert [event.text for event in found] == ["inside"]
        assert events.read(session, kinds=[]) == []


def test_words_are_looked_for_in_what_happened_and_to_what_and_mean_themselves(database: Database) -> None:
    with database.write() as session:
        events.append(session, EventKind.NOTE_ADDED, "A new Driver, 100 % sure", "E-0001")
        events.append(session, EventKind.NOTE_ADDED, "Nothing else")
    with database.read() as session:
        for words, count in (("driver", 1), ("e-0001", 1), ("100 %", 1), ("_", 0), ("%", 1), ("", 2)):
            assert len(events.latest(session, 5, words=words)) == count, words
            assert len(events.read(session, words=words)) == count, words


def test_an_id_is_never_used_again(database: Database) -> None:
    add(database, "a", "b")
    with database.write() as session:
        session.delete(events.read(session, after_id=1)[0])
    add(database, "c")
    with database.read() as session:
        assert [event.id for event in events.read(session)] == [1, 3]


def test_following_goes_from_page_to_page_and_ends_when_told(database: Database) -> None:
    texts = [str(number) for number in range(events.PAGE_EVENTS + 3)]
    add(database, *texts)
    assert [event.text for event in events.follow(database, 0, wait=lambda: False)] == texts


def test_following_waits_for_what_comes(database: Database) -> None:
    coming = iter(["b", "c"])

    def wait() -> bool:
        text = next(coming, None)
        if text is not None:
            add(database, text)
        return text is not None

    add(database, "a")
    assert [event.text for event in events.follow(database, 0, wait)] == ["a", "b", "c"]


def test_no_transaction_is_open_while_a_follower_works(url: str, database: Database) -> None:
    add(database, "a", "b")
    follower = events.follow(database, 0, wait=lambda: False)
    next(follower)
    outsider = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    busy, _, _ = outsider.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    outsider.close()
    assert not busy  # an open snapshot would keep the log from being cut
    assert [event.text for event in follower] == ["b"]


def test_a_follower_misses_nothing_of_writers_at_the_same_time(url: str, database: Database) -> None:
    count = 100
    command = [sys.executable, "-c", WRITE_EVENTS, url]
    writers = [subprocess.Popen([*command, name, str(count)], cwd=ROOT) for name in ("first", "second")]
    pause = threading.Event()
    follower = events.follow(database, 0, wait=lambda: not pause.wait(0.001))
    seen = list(islice(follower, 2 * count))
    assert [writer.wait() for writer in writers] == [0, 0]
    ids = [event.id for event in seen]
    assert ids == sorted(set(ids))
    for name in ("first", "second"):
        mine = [event.text for event in seen if event.text.startswith(name)]
        assert mine == [f"{name} {number}" for number in range(count)]
