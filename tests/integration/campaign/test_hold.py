"""A loop's hold on its campaign: who has it writes, who lost it is told so; on a real file."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import update

from agent.campaign.hold import RENEWALS, Hold
from configs.errors import LeaseLost
from db.clock import after
from db.models import Campaign
from db.session import Database
from tests.new_database import new_database

LEASE_S = 60.0


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = new_database(tmp_path)
    nothing = {"objective": {}, "limits": {}, "budget": {}, "spec": {}}
    with database.write() as session:
        session.add(Campaign(name="a", model="m", model_fingerprint="f", target="cpu", seed=1, **nothing))
    yield database
    database.close()


def taken(database: Database, hold: Hold) -> bool:
    with database.write() as session:
        return hold.take(session)


def test_a_hold_is_of_one_loop_until_it_is_released(database: Database) -> None:
    first, second = (Hold(database, 1, LEASE_S, Clock()) for _ in range(2))
    assert (taken(database, first), taken(database, second)) == (True, False)
    with first.writing() as session:
        session.get_one(Campaign, 1).stopped_because = "the first one wrote it"
        first.release(session)
    assert taken(database, second)


def test_a_lease_is_renewed_when_its_part_of_the_time_is_gone_and_not_before(database: Database) -> None:
    clock, done = Clock(), []
    hold = Hold(database, 1, LEASE_S, clock)
    assert taken(database, hold)
    for clock.now_s in (0.0, 0.9 * LEASE_S / RENEWALS, LEASE_S / RENEWALS, LEASE_S / RENEWALS + 1.0):
        hold.keep(lambda session: done.append(clock.now_s))
    assert done == [LEASE_S / RENEWALS]


def test_who_lost_its_lease_writes_nothing_and_is_told_who_has_it(database: Database) -> None:
    clock = Clock()
    stale, other = Hold(database, 1, LEASE_S, clock), Hold(database, 1, LEASE_S, Clock())
    assert taken(database, stale)
    with database.write() as session:
        session.execute(update(Campaign).values(owner_lease_expires_at=after(-1)))
    assert taken(database, other)
    clock.now_s = LEASE_S
    with pytest.raises(LeaseLost, match="C-1 was taken over by another process"):
        stale.keep(lambda session: pytest.fail("nothing may be done beside a lease that is lost"))
    with pytest.raises(LeaseLost, match="Another process drives campaign C-1"), stale.writing() as session:
        session.get_one(Campaign, 1).stopped_because = "the stale one wrote it"
    with database.read() as session:
        assert session.get_one(Campaign, 1).stopped_because is None
