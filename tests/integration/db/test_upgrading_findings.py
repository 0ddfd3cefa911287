"""Databases in which reruns of one campaign counted as replications: an upgrade tells them apart, in what is
derived of a finding and in what each verdict says of it."""

import json
import sqlite3
from collections import Counter
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import select

from configs.errors import DatabaseTooOld
from db.models import Finding, FindingEvidence, ImportedEvidence
from db.schema import packaged_scripts
from db.session import Database, open_database
from db.states import VerdictOutcome
from knowledge.findings.exchange import read_file
from knowledge.findings.importing import export_verdicts, import_verdicts
from tests.history.campaign_history import History
from tests.new_database import FILE_NAME, database_url

SUPPORTED = VerdictOutcome.SUPPORTED
REFUTED = VerdictOutcome.REFUTED
NO_GAIN = (0.0, -0.01, 0.01)
RERUN, TWO_CAMPAIGNS, IMPORTED_TOO, ALONE, DISPUTED = (
    {"serving.threads": 1},
    {"serving.compile": "default"},
    {"serving.dtype": "bfloat16"},
    {"pruning.method": "depth"},
    {"drafting.method": "ngram"},
)


BEFORE = (
    *(
        f"UPDATE {table} SET relation = 'replicates' WHERE relation = 'reproduces'"
        for table in ("finding_evidence", "imported_evidence")
    ),
    "UPDATE finding SET strength = 'replicated' WHERE strength = 'reproduced'",
    "UPDATE finding SET rule = 'R5-replicated' WHERE rule = 'R5-agreed'",
    "ALTER TABLE device_mean DROP COLUMN read_s",
    "UPDATE alembic_version SET version_num = '0013'",
)
"""What makes a database of now one of before."""

Derived = dict[str, tuple[str, str]]
"""Strength and rule of each finding by its key."""

Relations = dict[tuple[int, str, int], str]
"""What each verdict of here or elsewhere says of a finding."""

WITHOUT_RERUNS = "0014"
"""The last migration that called all that is said again `replicates`."""


def write_findings(history: History) -> None:
    """Findings of one verdict, of a rerun, of two campaigns with a rerun in each, of here and twice
    elsewhere, and of verdicts that disagree."""
    rerun = history.propose(RERUN)
    first = history.judge(rerun, SUPPORTED)
    history.judge(rerun, SUPPORTED, reproduces=first.experiment_id)
    second = history.start("second")
    tested = [history.propose(TWO_CAMPAIGNS, campaign_id=each) for each in (history.campaign_id, second)]
    of_two = [history.judge(each, SUPPORTED).experiment_id for each in tested]
    for hypothesis, experiment in zip(tested, of_two, strict=True):
        history.judge(hypothesis, SUPPORTED, reproduces=experiment)
    disputed = history.propose(DISPUTED)
    claimed = history.judge(disputed, SUPPORTED)
    history.judge(disputed, REFUTED, effect=NO_GAIN, reproduces=claimed.experiment_id)
    history.judge(disputed, SUPPORTED, reproduces=claimed.experiment_id)
    history.judge(history.propose(DISPUTED, campaign_id=second), VerdictOutcome.INCONCLUSIVE)
    shared = history.judge(history.propose(IMPORTED_TOO), SUPPORTED)
    history.judge(history.propose(ALONE), SUPPORTED)
    with history.database.write() as session:
        told = json.loads(export_verdicts(session, "lab").model_dump_json())
        label = f"E-{shared.experiment_id:04d}"
        (found,) = [each for each in told["verdicts"] if each["experiment"] == label]
        # others, by what they say
        wanted = [{**found, "at": f"2026-01-0{day}T00:00:00+00:00"} for day in (1, 2)]
        import_verdicts(session, read_file(json.dumps({**told, "verdicts": wanted}), "lab.json"))


def derived(database: Database) -> Derived:
    with database.read() as session:
        return {each.key: (each.strength, each.rule) for each in session.scalars(select(Finding))}


def relations(database: Database) -> Relations:
    with database.read() as session:
        return {
            **{
                (each.finding_id, "here", each.verdict_id): each.relation.value
                for each in session.scalars(select(FindingEvidence))
            },
            **{
                (each.finding_id, "elsewhere", each.imported_verdict_id): each.relation.value
                for each in session.scalars(select(ImportedEvidence))
            },
        }


def go_back(database: Database, revision: str) -> None:
    """Take a database back to what it was at an older migration."""
    with database.engine.begin() as connection, packaged_scripts() as scripts:
        config = Config()
        config.set_main_option("script_location", str(scripts))
        config.attributes["connection"] = connection
        command.downgrade(config, revision)


def test_after_an_upgrade_only_what_two_campaigns_say_is_replicated(tmp_path: Path) -> None:
    history = History(tmp_path)
    write_findings(history)
    now = derived(history.database)
    history.close()
    assert sorted(now.values()) == [
        ("mixed", "R6-contradicted"),
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


def test_a_rerun_is_called_so_after_an_upgrade_and_a_replication_after_going_back(tmp_path: Path) -> None:
    history = History(tmp_path)
    write_findings(history)
    now = relations(history.database)
    assert Counter(now.values()) == {
        "supports": 5,
        "reproduces": 5,
        "replicates": 2,
        "contradicts": 1,
        "informs": 1,
    }
    go_back(history.database, WITHOUT_RERUNS)
    before = relations(history.database)
    assert before == {
        which: "replicates" if relation == "reproduces" else relation for which, relation in now.items()
    }
    history.close()
    database = open_database(database_url(tmp_path), upgrade=True)
    assert relations(database) == now
    database.close()
