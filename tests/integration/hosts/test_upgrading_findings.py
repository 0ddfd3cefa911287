"""The same upgrade of findings on PostgreSQL as on SQLite."""

from pathlib import Path

from db.session import Database, open_database
from tests.history.campaign_history import History
from tests.integration.db.test_upgrading_findings import BEFORE, derived, write_findings
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
