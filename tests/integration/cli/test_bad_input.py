"""What a user can get wrong gets one sentence, what to do, and an exit code; never a traceback."""

import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.cli.command import Autoinfer, Ended


def told(done: Ended, code: int, *words: str) -> None:
    assert done.code == code, done.err
    assert done.out == ""
    assert "Traceback" not in done.err
    assert done.err.startswith("autoinfer: ")
    for word in words:
        assert word in done.err
    assert len(done.err.strip().splitlines()) <= 3


@pytest.mark.parametrize(
    "line",
    [
        "summary",
        "queue",
        "hypotheses",
        "experiments",
        "findings",
        "show E-1",
        "graph",
        "log",
        "campaign list",
        "focus threads",
        "note hello",
        "worker --once",
        "reproduce E-1",
        "db upgrade",
        "enqueue claim --set serving.threads=1",
    ],
)
def test_no_database_at_all(autoinfer: Autoinfer, line: str) -> None:
    told(autoinfer(line), 1, "There is no database at", "autoinfer run")
    assert not autoinfer.data_dir.exists()  # asking makes nothing


def test_a_database_of_a_newer_version(with_history: Autoinfer) -> None:
    file = with_history.data_dir / "autoinfer.db"
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    told(with_history("summary"), 1, "was written by a newer version of autoinfer", "Nothing was changed")
    told(with_history("db upgrade"), 1, "newer version")


def test_a_file_that_is_no_database(autoinfer: Autoinfer) -> None:
    autoinfer.data_dir.mkdir()
    file = autoinfer.data_dir / "autoinfer.db"
    file.write_text("my shopping list, which is longer than a header")
    told(autoinfer("summary"), 1, "is not a database")
    assert file.read_text().startswith("my shopping list")


@pytest.fixture
def read_only(with_history: Autoinfer) -> Iterator[Autoinfer]:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere; the next test covers a read-only database for root too")
    for path in (with_history.data_dir, *with_history.data_dir.iterdir()):
        path.chmod(path.stat().st_mode & ~0o222)
    yield with_history
    for path in (with_history.data_dir, *with_history.data_dir.iterdir()):
        path.chmod(path.stat().st_mode | stat.S_IWUSR)


def test_a_read_only_database_is_refused_for_writing(read_only: Autoinfer) -> None:
    told(read_only("note hello"), 1, "Only reading is allowed")


def test_a_locked_database(with_history: Autoinfer) -> None:
    connection = sqlite3.connect(with_history.data_dir / "autoinfer.db", isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    try:
        told(with_history("note hello"), 1, "keeps the database", "locked")
        assert with_history("summary").code == 0  # reading goes on beside a writer
    finally:
        connection.rollback()
        connection.close()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("show H-99", ["H-099 does not exist; the last is H-007.", "autoinfer hypotheses"]),
        ("show E-99", ["E-0099 does not exist; the last is E-0005.", "autoinfer experiments"]),
        ("show F-99", ["F-099 does not exist; the last is F-003."]),
        ("show C-99", ["C-99 does not exist; the last is C-1."]),
        ("show A-beef", ["No artifact", "beef"]),
        ("show D-1", ["D-1 does not exist; there is no directive yet."]),
        ("show nonsense", ["'nonsense' is not a label.", "C-1 (campaign)"]),
        ("show H-1 --samples", ["--samples belongs to an experiment"]),
        ("summary --campaign H-1", ["'H-1' names a hypothesis, but a campaign is wanted here."]),
        ("summary --campaign C-9", ["C-9 does not exist; the last is C-1."]),
        ("pin E-1", ["names an experiment", "hypothesis is wanted"]),
        ("pin H-1", ["H-001 is supported; only what waits in the queue can be pinned."]),
        ("withdraw H-5", ["H-005 is testing"]),
        ("reproduce H-1", ["names a hypothesis, but an experiment is wanted"]),
        ("reproduce E-5", ["E-0005", "verdict"]),
        ("log --since yesterday", ["--since is an event's id, a whole number, not 'yesterday'."]),
        ("log --since -3", ["--since is an event's id"]),
        (
            "log --kind experiment.judgd",
            ["There is no kind of event 'experiment.judgd'.", "experiment.judged"],
        ),
        ("hypotheses --state suported", ["--state cannot be 'suported'.", "supported"]),
        ("experiments --outcome good", ["--outcome cannot be 'good'.", "supported"]),
        ("findings --status old", ["--status cannot be 'old'.", "stale"]),
        ("hypotheses --limit 0", ["--limit", "0"]),
        ("hypotheses --limit many", ["--limit", "many"]),
        ("focus", ["Which lever?", "autoinfer focus LEVER"]),
        ("focus thread", ["There is no lever 'thread' in C-1.", "threads"]),
        ("ban --clear", ["There is no ban to lift in C-1."]),
        ("note ''", ["The note is empty."]),
        ("note hello --stale quantum", ["No finding that still holds has to do with 'quantum'"]),
        ("campaign resume", ["C-1 is running, not paused."]),
        ("campaign stop C-7", ["C-7 does not exist; the last is C-1."]),
        ("graph --around H-77", ["H-077 is not in the graph."]),
        ("graph --around x:y", ["x:y is not in the graph."]),
        ("graph --format xml", ["--format", "xml"]),
        ("artifacts prune --unused-for long", ["'long' is not a duration.", "90s"]),
        ("artifacts prune", ["--unused-for"]),
        ("enqueue claim --set serving.thread=1", ["serving.thread"]),
        ("enqueue claim --set serving.threads=3", ["serving.threads", "3"]),
        ("enqueue claim --set serving.threads", ["serving.threads"]),
        ("enqueue claim", ["--set"]),
        ("reference train", ["--output"]),
        ("reference train --output . --minutes 1 --steps 1", ["--minutes and --steps cannot both hold."]),
        ("reference train --output .", [". is not an empty folder."]),
        ("worker --executor moon", ["There is no executor 'moon'.", "local"]),
        ("summry", ["There is no command 'summry'; did you mean summary?"]),
        ("summary --frobnicate", ["--frobnicate", "autoinfer summary --help"]),
        ("summary extra", ["extra"]),
        ("--db mysql://x/y summary", ["mysql"]),
        ("--db nonsense summary", ["'nonsense' is not a database URL."]),
        ("--config nowhere.toml summary", ["There is no settings file", "nowhere.toml"]),
        ("--db", ["--db"]),
    ],
)
def test_what_cannot_be_accepted_ends_with_two(with_history: Autoinfer, line: str, words: list[str]) -> None:
    before = (with_history.data_dir / "autoinfer.db").read_bytes()
    told(with_history(line), 2, *words)
    assert (with_history.data_dir / "autoinfer.db").read_bytes() == before


def test_a_malformed_settings_file_is_named(with_history: Autoinfer) -> None:
    (with_history.data_dir / "autoinfer.toml").write_text("lease_s = 'soon'\n")
    told(with_history("config show"), 2, "lease_s", "autoinfer.toml")


def test_an_unknown_variable_is_named(with_history: Autoinfer) -> None:
    told(with_history("summary", AUTOINFER_LEASES="3"), 2, "AUTOINFER_LEASES", "AUTOINFER_LEASE_S")


def test_a_file_that_cannot_be_written_is_named(with_history: Autoinfer) -> None:
    told(with_history("graph --output /proc/nothing/graph.json"), 1, "/proc/nothing/graph.json")


@pytest.mark.parametrize(
    ("line", "code", "word"),
    [
        ("show H-99 --json", 2, "H-099 does not exist; the last is H-007."),
        ("hypotheses --limit many --json", 2, "many"),
        ("nothing --json", 2, "There is no command 'nothing'"),
        ("--db sqlite:////tmp/surely/not/there.db summary --json", 1, "There is no database"),
    ],
)
def test_with_json_errors_are_json_on_standard_error(
    with_history: Autoinfer, line: str, code: int, word: str
) -> None:
    done = with_history(line)
    assert (done.code, done.out) == (code, "")
    assert word in done.error["error"]
    assert done.error["exit_code"] == code
    assert set(done.error) == {"error", "hint", "exit_code"}


def test_debug_shows_the_traceback_beside_the_sentence(with_history: Autoinfer) -> None:
    done = with_history("show H-99 --debug")
    assert done.code == 2
    assert "Traceback" in done.err
    assert "autoinfer: H-099 does not exist" in done.err


def test_a_fault_of_our_own_is_told_without_a_traceback_too(with_history: Autoinfer, tmp_path: Path) -> None:
    with sqlite3.connect(with_history.data_dir / "autoinfer.db") as connection:
        connection.execute("UPDATE hypothesis SET state = 'bewildered' WHERE id = 1")
    connection.close()
    told(with_history("hypotheses"), 1, "by a fault of its own", "bewildered", "--debug")
