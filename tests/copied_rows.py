"""Every row of one database put into another, so that both can be asked the same."""

from sqlalchemy import func, select, text

from db.models import Base
from db.session import Database

AT_ONCE = 500


def copy_rows(source: Database, target: Database) -> int:
    """Copy all tables into an empty PostgreSQL database, its counters too; returns how many rows."""
    copied = 0
    # In any order, whatever rows refer to.
    with source.read() as reading, target.write() as writing:
        writing.execute(text("SET LOCAL session_replication_role = replica"))
        for table in Base.metadata.tables.values():
            rows = [dict(row) for row in reading.execute(select(table)).mappings()]
            for start in range(0, len(rows), AT_ONCE):
                writing.execute(table.insert(), rows[start : start + AT_ONCE])
            copied += len(rows)
            if "id" in table.c:
                counter = func.pg_get_serial_sequence(table.name, "id")
                newest = select(func.coalesce(func.max(table.c.id), 0) + 1).scalar_subquery()
                writing.execute(select(func.setval(counter, newest, False)))
    return copied
