"""A database of an older version is refused, or upgraded whole; an upgrade that fails changes nothing."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import create_engine, select
from sqlalchemy.exc import IntegrityError

import db.schema
from configs.errors import DatabaseTooOld
from db import events, queue
from db.event_kinds import EventKind
from db.models import Hypothesis, HypothesisParent
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
    script = scripts / "versions" / "later_next.py"
    script.write_text(
        "import sqlalchemy as sa\nfrom alembic import op\n"
        f"revision = 'later'\ndown_revision = {db.schema.HEAD_REVISION!r}\n"
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
    monkeypatch.setattr(db.schema, "HEAD_REVISION", "later")
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


FIRST_REVISION = "0001"


@pytest.fixture
def first_url(url: str) -> str:
    """A database of the first version, with a campaign and two hypotheses that refer to one another."""
    from alembic import command
    from alembic.config import Config

    engine = create_engine(url)
    with engine.begin() as connection, db.schema.packaged_scripts() as scripts:
        config = Config()
        config.set_main_option("script_location", str(scripts))
        config.attributes["connection"] = connection
        command.upgrade(config, FIRST_REVISION)
    engine.dispose()
    with sqlite3.connect(file_of(url)) as connection_:
        for knobs in ("control", "candidate", "other"):
            connection_.execute("INSERT INTO configuration (digest, knobs) VALUES (?, '{}')", (knobs,))
        connection_.execute(
            "INSERT INTO campaign (name, model, model_fingerprint, target, objective, limits, budget, seed, "
            "state, spec, created_at) VALUES ('c', 'm', 'f', 'cpu', '{}', '{}', '{}', 0, 'running', '{}', 0)"
        )
        for number, candidate in ((1, 2), (2, 3)):
            connection_.execute(
                "INSERT INTO hypothesis (campaign_id, claim, control_configuration_id, "
                "candidate_configuration_id, change, change_digest, metric, prediction, min_effect, "
                "refuted_if, rationale, proposer, lever, state, pinned, created_at, state_changed_at) "
                f"VALUES (1, 'claim {number}', 1, {candidate}, '{{}}', 'd', 'tpot_ms', '{{}}', 0.03, '', '', "
                "'rules', 'threads', 'queued', 0, 0, 0)"
            )
        connection_.execute("INSERT INTO hypothesis_parent (hypothesis_id, parent_id) VALUES (2, 1)")
    connection_.close()
    return url


def test_a_database_of_the_first_version_keeps_its_hypotheses(first_url: str) -> None:
    database = open_database(first_url, upgrade=True)
    with database.read() as session:
        rows = session.scalars(select(Hypothesis).order_by(Hypothesis.id)).all()
        assert [(row.claim, row.question, row.metric) for row in rows] == [
            ("claim 1", None, "tpot_ms"),
            ("claim 2", None, "tpot_ms"),
        ]
        assert session.get(HypothesisParent, (2, 1)) is not None
    database.close()


def repeated(row: Hypothesis, **changed: object) -> Hypothesis:
    fields = {column.name: getattr(row, column.name) for column in Hypothesis.__table__.columns}
    return Hypothesis(**{**fields, "id": None, **changed})


@pytest.mark.parametrize(
    ("changed", "accepted"),
    [
        ({}, False),
        ({"metric": "nll_bits"}, True),
        ({"question": "asked"}, True),
        ({"drafter_content": "trained again"}, True),
    ],
)
def test_a_comparison_may_come_again_on_another_metric_for_a_question_or_with_another_drafter(
    first_url: str, changed: dict[str, object], accepted: bool
) -> None:
    database = open_database(first_url, upgrade=True)
    try:
        with database.write() as session:
            session.add(repeated(session.get_one(Hypothesis, 1), **changed))
            session.flush()
    except IntegrityError:
        assert not accepted
    else:
        assert accepted
    database.close()


def test_a_question_is_asked_once_in_a_campaign(first_url: str) -> None:
    database = open_database(first_url, upgrade=True)
    with database.write() as session:
        session.add(repeated(session.get_one(Hypothesis, 1), question="asked"))
    with database.write() as session:
        session.add(repeated(session.get_one(Hypothesis, 1), question="asked"))
        with pytest.raises(IntegrityError):
            session.flush()
        session.rollback()
    database.close()
