"""Databases in which reruns of one campaign counted as replications: an upgrade tells them apart."""

import json
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import select

from configs.errors import DatabaseTooOld
from db.models import Finding
from db.session import Database, open_database
from db.states import VerdictOutcome
from knowledge.findings.exchange import read_file
from knowledge.findings.importing import export_verdicts, import_verdicts
from tests.history.campaign_history import History
from tests.new_database import FILE_NAME, database_url

SUPPORTED = VerdictOutcome.SUPPORTED
RERUN, TWO_CAMPAIGNS, IMPORTED_TOO, ALONE = (
    {"serving.threads": 1},
    {"serving.compile": "default"},
    {"serving.dtype": "bfloat16"},
    {"pruning.method": "depth"},
)


BEFORE = (
    "UPDATE finding SET strength = 'replicated' WHERE strength = 'reproduced'",
    "UPDATE finding SET rule = 'R5-replicated' WHERE rule = 'R5-agreed'",
    "UPDATE alembic_version SET version_num = '0013'",
)
"""What makes a database of now one of before."""

Derived = dict[str, tuple[str, str]]
"""Strength and rule of each finding by its key."""


def write_findings(history: History) -> None:
    """Findings of one verdict, of a rerun, of two campaigns, and of one of here and one of elsewhere."""
    rerun = history.propose(RERUN)
    first = history.judge(rerun, SUPPORTED)
    history.judge(rerun, SUPPORTED, reproduces=first.experiment_id)
    second = history.start("second")
    for campaign_id in (history.campaign_id, second):
        history.judge(history.propose(TWO_CAMPAIGNS, campaign_id=campaign_id), SUPPORTED)
    shared = history.judge(history.propose(IMPORTED_TOO), SUPPORTED)
    history.judge(history.propose(ALONE), SUPPORTED)
    with history.database.write() as session:
        told = json.loads(export_verdicts(session, "lab").model_dump_json())
        label = f"E-{shared.experiment_id:04d}"
        wanted = [each for each in told["verdicts"] if each["experiment"] == label]
        wanted[0]["at"] = "2026-01-01T00:00:00+00:00"  # another one, by what it says
        import_verdicts(session, read_file(json.dumps({**told, "verdicts": wanted}), "lab.json"))


def derived(database: Database) -> Derived:
    with database.read() as session:
        return {each.key: (each.strength, each.rule) for each in session.scalars(select(Finding))}


def test_after_an_upgrade_only_what_two_campaigns_say_is_replicated(tmp_path: Path) -> None:
    history = History(tmp_path)
    write_findings(history)
    now = derived(history.database)
    history.close()
    assert sorted(now.values()) == [
        ("replicated", "R5-agreed"),
        ("replicated", "R5-agreed"),
        ("reproduced", "R5-agreed"),
        ("single", "R1-effect"),
    ]
    with sqlite3.connect(tmp_path / FILE_NAME) as connection:
        for statement in BEFORE:
            connection.execute(statement)
    connection.close()
    with pytest.raises(DatabaseTooOld):
        open_database(database_url(tmp_path))
    database = open_database(database_url(tmp_path), upgrade=True)
    assert derived(database) == now
    database.close()
