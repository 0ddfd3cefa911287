"""The migrations build exactly what the models say, from an empty database, once."""

import subprocess
import sys
from pathlib import Path

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, create_engine, inspect

from db.models import Base
from db.schema import HEAD_REVISION, packaged_scripts
from db.session import Database, open_database
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).parents[3]


def test_models_and_migrations_agree(database: Database) -> None:
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []


def written(engine: Engine, kind: str) -> dict[str, str]:
    """Return what SQLite keeps as the text of the indexes or tables, by name."""
    with engine.connect() as connection:
        rows = connection.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE type = ?", (kind,))
        return {name: " ".join(sql.split()) for name, sql in rows if sql}


def test_partial_indexes_and_autoincrement_agree_too(database: Database, tmp_path: Path) -> None:
    """Alembic's comparison overlooks both."""
    modelled = create_engine(f"sqlite:///{tmp_path}/modelled.db")
    Base.metadata.create_all(modelled)
    indexes = written(database.engine, "index")
    assert indexes == written(modelled, "index")
    assert indexes["uq_job_running_device"].endswith("WHERE state = 'running'")
    for engine in (database.engine, modelled):
        tables = written(engine, "table")
        assert [name for name, sql in tables.items() if "AUTOINCREMENT" in sql] == ["event"]
    modelled.dispose()


def test_the_named_head_is_the_newest_script() -> None:
    with packaged_scripts() as scripts:
        assert ScriptDirectory(scripts).get_heads() == [HEAD_REVISION]


def test_all_tables_come_from_an_empty_database(database: Database) -> None:
    found = set(inspect(database.engine).get_table_names())
    assert found == {*Base.metadata.tables, "alembic_version"}


def test_opening_an_up_to_date_database_needs_no_alembic(url: str, database: Database) -> None:
    database.close()
    program = (
        "import sys; from db.session import open_database\n"
        f"open_database({url!r}).close(); print('alembic' in sys.modules)"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert outcome.stdout.strip() == "False"


def test_processes_that_make_the_database_at_the_same_time_agree(url: str) -> None:
    program = (
        "import sys; from db.session import open_database\n"
        "from db import queue\n"
        "sys.stdin.readline()\n"
        f"database = open_database({url!r}, create=True)\n"
        "with database.write() as session: print(queue.enqueue(session, 'experiment', {}))"
    )
    python = [sys.executable, "-c", program]
    makers = [
        subprocess.Popen(python, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(4)
    ]
    told = []
    for maker in makers:
        assert maker.stdin is not None
        maker.stdin.write("go\n")
        maker.stdin.flush()
    for maker in makers:
        out, _ = maker.communicate(timeout=PATIENCE_S)
        assert maker.returncode == 0
        told.append(int(out))
    assert sorted(told) == [1, 2, 3, 4]
    open_database(url).close()
