"""A database of an older version is refused, or upgraded whole; an upgrade that fails changes nothing."""

import shutil
import sqlite3
from pathlib import Path

import pytest

import db.schema
from configs.errors import DatabaseTooOld
from db import events, queue
from db.event_kinds import EventKind
from db.session import Database, open_database


def file_of(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


def jobs(url: str) -> int:
    with sqlite3.connect(file_of(url)) as connection:
        (count,) = connection.execute("SELECT count(*) FROM job").fetchone()
    connection.close()
    return int(count)


@pytest.fixture
def next_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The migrations of a later version, with one more revision; returns its script."""
    scripts = tmp_path / "migrations"
    shutil.copytree(Path(db.schema.__file__).parent / "migrations", scripts)
    script = scripts / "versions" / "0002_next.py"
    script.write_text(
        "import sqlalchemy as sa\nfrom alembic import op\n"
        f"revision = '0002'\ndown_revision = {db.schema.HEAD_REVISION!r}\n"
        "def upgrade():\n"
        "    with op.batch_alter_table('campaign') as batch:\n"
        "        batch.add_column(sa.Column('colour', sa.Text()))\n"
        "        batch.alter_column('name', nullable=True)\n"
    )

    class Scripts:
        def __enter__(self) -> Path:
            return scripts

        def __exit__(self, *error: object) -> None:
            return None

    monkeypatch.setattr(db.schema, "packaged_scripts", Scripts)
    monkeypatch.setattr(db.schema, "HEAD_REVISION", "0002")
    return script


def columns(url: str) -> set[str]:
    with sqlite3.connect(file_of(url)) as connection:
        found = {row[1] for row in connection.execute("PRAGMA table_info(campaign)")}
    connection.close()
    return found


@pytest.fixture
def older_url(url: str, database: Database, campaign_id: int) -> str:
    """A database as this version writes it, with a campaign, an event and a job that refer to one another."""
    with database.write() as session:
        events.append(session, EventKind.CAMPAIGN_STARTED, "begun", campaign_id=campaign_id)
        queue.enqueue(session, "experiment", {}, campaign_id=campaign_id)
    database.close()
    return url


def test_an_older_database_says_how_to_upgrade(older_url: str, next_version: Path) -> None:
    with pytest.raises(DatabaseTooOld) as refusal:
        open_database(older_url)
    assert "autoinfer db upgrade" in refusal.value.hint
    assert "colour" not in columns(older_url)


def test_an_older_database_is_upgraded_when_asked_and_keeps_its_rows(
    older_url: str, next_version: Path
) -> None:
    database = open_database(older_url, upgrade=True)
    with database.read() as session:
        assert [event.text for event in events.read(session)] == ["begun"]
    database.close()
    assert jobs(older_url) == 1
    assert "colour" in columns(older_url)


def test_an_upgrade_that_fails_changes_nothing(older_url: str, next_version: Path) -> None:
    broken = next_version.read_text() + "    op.execute('DELETE FROM campaign')\n"
    next_version.write_text(broken)
    with pytest.raises(ValueError, match="broken references"):
        open_database(older_url, upgrade=True)
    assert "colour" not in columns(older_url)
    assert jobs(older_url) == 1
