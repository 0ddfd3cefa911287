"""Opening a database that is missing, foreign, too new or old, locked, read-only, damaged, out of space."""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import func, select
from sqlalchemy.exc import DBAPIError

import db.schema
from configs.errors import (
    AutoinferError,
    DatabaseDamaged,
    DatabaseLocked,
    DatabaseMissing,
    DatabaseTooNew,
    DiskFull,
    NotADatabase,
)
from db import events, queue
from db.event_kinds import EventKind
from db.models import Event
from db.session import Database, open_database

ROOT = Path(__file__).parents[3]
NOBODY = 65534


def file_of(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


def fill(url: str) -> None:
    database = open_database(url, create=True)
    with database.write() as session:
        queue.enqueue(session, "experiment", {})
    database.close()


def jobs(url: str) -> int:
    with sqlite3.connect(file_of(url)) as connection:
        (count,) = connection.execute("SELECT count(*) FROM job").fetchone()
    connection.close()
    return int(count)


def test_a_missing_database_is_named_and_not_made(url: str) -> None:
    with pytest.raises(DatabaseMissing, match=r"autoinfer\.db") as refusal:
        open_database(url)
    assert "autoinfer run" in refusal.value.hint
    assert not file_of(url).exists()


def test_an_empty_file_counts_as_missing(url: str) -> None:
    file_of(url).touch()
    with pytest.raises(DatabaseMissing):
        open_database(url)
    assert file_of(url).read_bytes() == b""
    fill(url)
    assert jobs(url) == 1


def test_a_database_and_its_folder_are_made_when_asked(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/not/yet/there %40.db"
    fill(url)
    assert jobs(url) == 1
    open_database(url).close()


def test_a_half_made_database_is_made_anew(url: str) -> None:
    with sqlite3.connect(file_of(url)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")  # what is there after a crash before the first commit
    connection.close()
    with pytest.raises(DatabaseMissing):
        open_database(url)
    fill(url)
    assert jobs(url) == 1


def test_commits_are_synced_and_references_held(database: Database) -> None:
    with database.write() as session:
        asked = ("journal_mode", "synchronous", "foreign_keys")
        found = [session.connection().exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in asked]
    assert found == ["wal", 2, 1]  # 2 is FULL


def test_a_read_session_cannot_write(database: Database) -> None:
    with pytest.raises(DBAPIError, match="readonly"), database.read() as session:
        events.append(session, EventKind.NOTE_ADDED, "no")
    with database.read() as session:
        assert events.last_id(session) == 0


def test_an_exception_rolls_a_write_back(database: Database) -> None:
    with pytest.raises(ZeroDivisionError), database.write() as session:
        events.append(session, EventKind.NOTE_ADDED, str(1 // 0))
    with database.read() as session:
        assert events.last_id(session) == 0


def test_another_file_is_left_alone(url: str) -> None:
    file_of(url).write_text("a shopping list")
    for create in (False, True):
        with pytest.raises(NotADatabase):
            open_database(url, create=create, upgrade=True)
    assert file_of(url).read_text() == "a shopping list"


def test_another_programs_database_is_left_alone(url: str) -> None:
    with sqlite3.connect(file_of(url)) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")
    connection.close()
    before = file_of(url).read_bytes()
    with pytest.raises(NotADatabase, match="not one of autoinfer"):
        open_database(url, create=True, upgrade=True)
    assert file_of(url).read_bytes() == before


def set_revision(url: str, revision: str) -> None:
    with sqlite3.connect(file_of(url)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (revision,))
    connection.close()


def test_a_newer_database_is_refused_and_left_alone(url: str) -> None:
    fill(url)
    set_revision(url, "9999")
    with pytest.raises(DatabaseTooNew, match="newer version"):
        open_database(url, create=True, upgrade=True)
    set_revision(url, db.schema.HEAD_REVISION)
    assert jobs(url) == 1


def test_a_locked_database_is_told_and_readable_all_the_same(url: str) -> None:
    fill(url)
    holder = sqlite3.connect(file_of(url), isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    database = open_database(url, busy_timeout_s=0.05)
    with pytest.raises(DatabaseLocked, match="keeps the database"), database.write():
        pytest.fail("the lock was not waited for")
    with database.read() as session:
        assert session.scalar(select(func.count()).select_from(Event)) == 0
    holder.execute("COMMIT")
    with database.write() as session:
        assert events.append(session, EventKind.NOTE_ADDED, "free again") == 1
    database.close()
    holder.close()


def test_making_a_database_that_is_locked_is_refused(url: str) -> None:
    holder = sqlite3.connect(file_of(url), isolation_level=None)
    holder.execute("PRAGMA journal_mode=WAL")
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(DatabaseLocked):
        open_database(url, create=True, busy_timeout_s=0.05)
    holder.close()
    fill(url)
    assert jobs(url) == 1


def test_a_damaged_database_is_told(url: str) -> None:
    fill(url)
    with file_of(url).open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 4096 * 4)
    with pytest.raises(DatabaseDamaged, match="damaged"):
        fill(url)


def test_a_full_disk_loses_nothing_that_was_stored(url: str) -> None:
    database = open_database(url, create=True)
    with database.write() as session:
        events.append(session, EventKind.NOTE_ADDED, "before")
        pages = session.connection().exec_driver_sql("PRAGMA page_count").scalar_one()
        session.connection().exec_driver_sql(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(DiskFull, match="No space is left") as failure, database.write() as session:
        session.add_all(Event(kind="note.added", text="x" * 1000) for _ in range(200))
    assert "intact" in failure.value.hint
    with database.write() as session:
        session.connection().exec_driver_sql("PRAGMA max_page_count = 1000000")
        assert session.connection().exec_driver_sql("PRAGMA integrity_check").scalar_one() == "ok"
        assert [event.text for event in events.read(session)] == ["before"]
    database.close()


def test_what_is_open_says_that_the_file_is_gone_and_writes_nothing_into_the_void(url: str) -> None:
    """A file that was deleted, or whose disk was taken away, takes writes as long as it is open."""
    database = open_database(url, create=True)
    with database.write() as session:
        events.append(session, EventKind.NOTE_ADDED, "before")
    file_of(url).unlink()
    with pytest.raises(DatabaseMissing, match="is gone"), database.write() as session:
        events.append(session, EventKind.NOTE_ADDED, "into the void")
    database.close()


FILL_THE_DISK = """
import sys
from configs.errors import DiskFull
from db import events
from db.event_kinds import EventKind
from db.session import open_database
url, told = sys.argv[1], 0
try:
    database = open_database(url, create=True)
    for _ in range(100):
        with database.write() as session:
            for _ in range(100):
                events.append(session, EventKind.NOTE_ADDED, "x" * 500)
        told += 100
except DiskFull as error:
    with database.read() as session:
        assert events.last_id(session) == told > 0, (events.last_id(session), told)
    print(error.message)
"""


READ_A_FULL_DISK = """
import sys
from pathlib import Path

from configs.errors import DiskFull
from db import events
from db.event_kinds import EventKind
from db.session import open_database

url, disk = sys.argv[1], Path(sys.argv[1].removeprefix("sqlite:///")).parent

def told():
    with database.read() as session:
        return events.last_id(session)

def tell():
    with database.write() as session:
        events.append(session, EventKind.NOTE_ADDED, "x")

def refused(action):
    try:
        action()
    except DiskFull as full:
        return full.message
    return "not refused"

database = open_database(url, create=True)
tell()
database.close()
with open(disk / "fill", "wb", buffering=0) as file:
    try:
        while True:
            file.write(bytes(4096))
    except OSError:
        pass
print(refused(lambda: open_database(url)))
database = open_database(url, reads_when_full=True)
print(told(), database.found_full == refused(tell), database.standing())
(disk / "fill").unlink()
tell()
print(told())
log = Path(f"{disk}/a.db-wal")
print(log.stat().st_size > 0)
kept = log.read_bytes()
database.close()
log.write_bytes(kept)
with open(disk / "fill", "wb", buffering=0) as file:
    try:
        while True:
            file.write(bytes(4096))
    except OSError:
        pass
print(refused(lambda: open_database(url, reads_when_full=True)))
"""


def test_a_file_on_a_full_disk_is_read_where_asked_and_live_again_when_there_is_room(tmp_path: Path) -> None:
    full, read, live, log, left = on_a_small_disk(tmp_path, READ_A_FULL_DISK).splitlines()
    assert full.startswith("No space is left on the disk of")
    assert read == "1 True None"
    assert live == "2"
    assert log == "True"
    assert left == full, "what lies in a log can't be read without a file beside it"


def test_a_really_full_disk_is_told(tmp_path: Path) -> None:
    assert on_a_small_disk(tmp_path, FILL_THE_DISK).startswith("No space is left on the disk")


def on_a_small_disk(tmp_path: Path, text: str) -> str:
    """What a script says that is given the address of a database on a disk of its own, of 2 MiB."""
    script = tmp_path / "script.py"
    script.write_text(text)
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = 'mount -t tmpfs -o size=2m tmpfs "$1" || exit 77; shift; exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", mounted, "sh", str(disk), sys.executable, str(script)]
    if shutil.which("unshare") is None:
        pytest.skip("no unshare here to mount a small disk with")
    outcome = subprocess.run(
        [*command, f"sqlite:///{disk}/a.db"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    if outcome.returncode == 77 or "unshare" in outcome.stderr:
        pytest.skip("no right to mount a small disk")
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout


def as_another_user(action: Callable[[], object]) -> str:
    """Run `action` in a forked process without root's rights, and return what it told the user."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            told = repr(action())
        except AutoinferError as error:
            told = f"{type(error).__name__}: {error.message}"
        except BaseException as error:
            told = f"TRACEBACK {error!r}"
        os.write(write_end, told.encode())
        os._exit(0)
    os.close(write_end)
    with open(read_end, "rb") as pipe:
        told = pipe.read().decode()
    os.waitpid(child, 0)
    return told


@pytest.fixture
def shared_url() -> Iterator[str]:
    """A filled database in a folder that another user may enter."""
    folder = Path(tempfile.mkdtemp(prefix="autoinfer-test-"))
    url = f"sqlite:///{folder}/a.db"
    fill(url)
    yield url
    folder.chmod(0o700)
    shutil.rmtree(folder)


def write_to(url: str) -> Callable[[], object]:
    def action() -> int:
        with open_database(url).write() as session:
            return queue.enqueue(session, "experiment", {})

    return action


def read_from(url: str) -> Callable[[], object]:
    def action() -> int:
        with open_database(url).read() as session:
            return events.last_id(session)

    return action


def test_a_read_only_file_can_be_read_and_says_so_when_written(shared_url: str) -> None:
    file_of(shared_url).parent.chmod(0o777)
    file_of(shared_url).chmod(0o444)
    assert as_another_user(read_from(shared_url)) == "0"
    told = as_another_user(write_to(shared_url))
    assert told == f"DatabaseReadOnly: The database {file_of(shared_url)} may only be read."
    assert jobs(shared_url) == 1


def test_a_file_beside_a_database_that_may_only_be_read_is_named(shared_url: str) -> None:
    path = file_of(shared_url)
    path.parent.chmod(0o777)
    path.chmod(0o666)
    with open_database(shared_url).read() as session:  # keeps the files of the write-ahead log in being
        assert events.last_id(session) == 0
        for end in ("-wal", "-shm"):
            path.with_name(path.name + end).chmod(0o444)
        told = as_another_user(write_to(shared_url))
    assert told == (
        f"DatabaseReadOnly: The database {path} may be written to, but {path}-wal and {path}-shm beside "
        "it may only be read."
    )


def test_a_read_only_folder_says_so(shared_url: str) -> None:
    file_of(shared_url).chmod(0o666)
    file_of(shared_url).parent.chmod(0o555)
    for action in (read_from(shared_url), write_to(shared_url)):
        assert as_another_user(action).startswith(
            f"DatabaseReadOnly: The folder of {file_of(shared_url)} may"
        )
    assert jobs(shared_url) == 1


def test_a_file_that_may_not_be_read_says_so(shared_url: str) -> None:
    file_of(shared_url).parent.chmod(0o777)
    file_of(shared_url).chmod(0o000)
    assert as_another_user(read_from(shared_url)).startswith("PermissionRefused: You may not read")


def test_a_folder_that_may_not_be_written_to_says_so(shared_url: str) -> None:
    folder = file_of(shared_url).parent
    folder.chmod(0o555)
    for name in ("new.db", "sub/new.db"):
        told = as_another_user(lambda name=name: open_database(f"sqlite:///{folder}/{name}", create=True))
        assert told.startswith(f"PermissionRefused: You may not write at {folder}")
