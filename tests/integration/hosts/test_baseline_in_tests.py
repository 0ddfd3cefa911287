"""What the baseline takes beside other jobs is read alike from PostgreSQL and from SQLite."""

from pathlib import Path

from db.session import Database
from knowledge.queries.baseline_in_tests import baseline_in_tests
from tests.copied_rows import copy_rows
from tests.history.campaign_history import History
from tests.history.timed_baseline import a_loaded_lab


def test_other_jobs_of_the_host_are_told_from_both(database: Database, tmp_path: Path) -> None:
    lab = a_loaded_lab(History(tmp_path))
    copy_rows(lab.history.database, database)
    of_file = lab.read()
    lab.history.close()
    with database.read() as session:
        of_server = baseline_in_tests(session, lab.history.campaign_id)
    assert of_server is not None
    assert of_server.beside == (1, 1)
    assert of_server == of_file
