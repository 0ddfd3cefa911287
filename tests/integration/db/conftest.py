"""A real database file for each test, and the rows that most tests need."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import update

from db.models import Campaign, Configuration, Job
from db.session import Database
from tests.new_database import database_url, new_database

Expire = Callable[[int], None]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return database_url(tmp_path)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = new_database(tmp_path)
    yield database
    database.close()


@pytest.fixture
def campaign_id(database: Database) -> int:
    with database.write() as session:
        campaign = Campaign(
            name="test",
            model="reference",
            model_fingerprint="f",
            target="desk/cpu",
            objective={},
            limits={},
            budget={},
            seed=1,
            spec={},
        )
        session.add(campaign)
        session.flush()
        return campaign.id


@pytest.fixture
def configuration_id(database: Database) -> int:
    with database.write() as session:
        configuration = Configuration(digest="0" * 64, knobs={})
        session.add(configuration)
        session.flush()
        return configuration.id


@pytest.fixture
def expire(database: Database) -> Expire:
    """Let the lease of a job run out, as it does when its owner falls silent."""

    def expire(job_id: int) -> None:
        from db.clock import after

        with database.write() as session:
            session.execute(update(Job).where(Job.id == job_id).values(lease_expires_at=after(-1)))

    return expire
