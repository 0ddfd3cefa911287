"""The same upgrade of findings on PostgreSQL as on SQLite."""

from pathlib import Path

from db.session import Database, open_database
from tests.history.campaign_history import History
from tests.integration.db.test_upgrading_findings import (
    BEFORE,
    WITHOUT_RERUNS,
    derived,
    go_back,
    relations,
    write_findings,
)
from tests.postgresql import Server


def test_a_server_s_findings_are_told_apart_too(
    server: Server, name: str, url: str, database: Database, tmp_path: Path
) -> None:
    history = History(tmp_path, database)
    assert history.start() == history.campaign_id
    write_findings(history)
    now = derived(database)
    for statement in BEFORE:
        server.execute(statement, name)
    upgraded = open_database(url, upgrade=True)
    assert derived(upgraded) == now
    assert ("reproduced", "R5-agreed") in now.values()
    upgraded.close()


def test_a_server_s_reruns_are_called_so_and_replications_after_going_back(
    url: str, database: Database, tmp_path: Path
) -> None:
    history = History(tmp_path, database)
    assert history.start() == history.campaign_id
    write_findings(history)
    now = relations(database)
    assert {"reproduces", "replicates"} < set(now.values())
    go_back(database, WITHOUT_RERUNS)
    assert "reproduces" not in relations(database).values()
    upgraded = open_database(url, upgrade=True)
    assert relations(upgraded) == now
    upgraded.close()
