"""A real PostgreSQL for the tests of this folder, started once, with a new database for each."""

from collections.abc import Iterator

import pytest

from db.session import Database, open_database
from tests import postgresql


@pytest.fixture(scope="session")
def server() -> Iterator[postgresql.Server]:
    if postgresql.programs() is None:
        pytest.skip(postgresql.MISSING)
    with postgresql.serving() as server:
        yield server


@pytest.fixture
def name(server: postgresql.Server) -> str:
    """The name of a new database with the schema and no row."""
    return server.new_database()


@pytest.fixture
def url(server: postgresql.Server, name: str) -> str:
    return server.url(name)


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    opened = open_database(url)
    yield opened
    opened.close()
