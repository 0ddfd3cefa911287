"""The version of a database's schema: told apart, and brought up to date by the packaged migrations."""

from __future__ import annotations

from contextlib import AbstractContextManager
from enum import Enum, auto
from importlib import resources
from pathlib import Path

from sqlalchemy import Connection, func, inspect, select, table, text
from sqlalchemy.sql import column

HEAD_REVISION = "0016"
"""The newest migration; a test holds it to the packaged scripts, so that opening need not load them."""

_VERSION_TABLE = table("alembic_version", column("version_num"))
_MIGRATION_LOCK_KEY = 0x6D69_6772
"""Key of PostgreSQL's advisory lock around migrating: the bytes of "migr"."""


class SchemaState(Enum):
    """How the schema of a database stands to the one this version of autoinfer knows."""

    EMPTY = auto()
    """No table at all."""
    FOREIGN = auto()
    """Tables of another program."""
    OLDER = auto()
    """Written by an older version; can be upgraded."""
    CURRENT = auto()
    """As this version knows it."""
    NEWER = auto()
    """Written by a newer version."""


def schema_state(connection: Connection) -> SchemaState:
    """Return how the schema behind `connection` stands; reads only."""
    tables = set(inspect(connection).get_table_names())
    if not tables:
        return SchemaState.EMPTY
    if not {_VERSION_TABLE.name, "campaign", "event"} <= tables:
        return SchemaState.FOREIGN
    heads = set(connection.scalars(select(_VERSION_TABLE.c.version_num)))
    if heads == {HEAD_REVISION}:
        return SchemaState.CURRENT
    return SchemaState.OLDER if heads <= _packaged_revisions() else SchemaState.NEWER


def migrate(connection: Connection) -> None:
    """Bring the schema behind `connection` to `HEAD_REVISION`, inside its open write transaction.

    Foreign keys must not be enforced on SQLite meanwhile (tables may be rebuilt); they are checked at the
    end, and a broken one raises `ValueError`, which rolls everything back.
    """
    from alembic import command
    from alembic.config import Config

    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_MIGRATION_LOCK_KEY)))
    with packaged_scripts() as scripts:
        config = Config()
        config.set_main_option("script_location", str(scripts).replace("%", "%%"))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    if connection.dialect.name == "sqlite" and (
        broken := connection.execute(text("PRAGMA foreign_key_check")).all()
    ):
        raise ValueError(f"the migration left {len(broken)} broken references, the first in {broken[0][0]}")


def packaged_scripts() -> AbstractContextManager[Path]:
    """Return a context that gives the folder of the migrations as they were installed."""
    return resources.as_file(resources.files("db.migrations"))


def _packaged_revisions() -> set[str]:
    from alembic.script import ScriptDirectory

    with packaged_scripts() as scripts:
        return {script.revision for script in ScriptDirectory(scripts).walk_revisions()}
