"""The models are valid on PostgreSQL too, as far as that can be told without a server."""

import pytest
from sqlalchemy import Table
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex, CreateTable

from db import queue_statements
from db.models import Base

DIALECT = postgresql.dialect()


@pytest.mark.parametrize("table", Base.metadata.sorted_tables, ids=lambda table: table.name)
def test_postgresql_takes_the_table_and_its_names(table: Table) -> None:
    assert f"CREATE TABLE {table.name}" in str(CreateTable(table).compile(dialect=DIALECT))
    for index in table.indexes:
        assert str(index.name) in str(CreateIndex(index).compile(dialect=DIALECT))


def test_postgresql_claims_without_waiting_for_other_claims() -> None:
    assert "FOR UPDATE SKIP LOCKED" in str(queue_statements.claim(1).compile(dialect=DIALECT))
