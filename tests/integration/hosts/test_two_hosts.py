"""The proof of tests/benchmarks/test_two_hosts.py with fewer jobs and shorter troubles, and wrong clocks.

In `make test` each of the troubles alone befalls a worker, in test_workers_on_postgresql.py; here, for
`make bench`, they befall two hosts one after the other.
"""

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import select

from db.clock import now
from db.models import Job
from db.session import Database
from db.states import JobState
from tests.hosts.chaos import Host, freeze_until_taken_over, prove
from tests.hosts.replay import replay
from tests.integration.worker.processes import Workers, all_done, processes_of
from tests.postgresql import Server
from tests.proxy import Proxy
from tests.simulated.queueing import enqueue_job, start_campaign
from tests.simulated.specs import FASTER, a_test_job
from tests.waiting import wait_for

CUT_S = 4.0


@pytest.mark.bench_only
def test_nothing_is_lost_doubled_or_out_of_order_whatever_befalls_two_hosts(
    server: Server, url: str, name: str, database: Database, tmp_path: Path
) -> None:
    proxy = Proxy(server.port)
    desk = Host("desk", tmp_path / "desk", url)
    attic = Host("attic", tmp_path / "attic", server.url(name, port=proxy.port))

    def cut() -> None:
        proxy.cut()
        threading.Timer(CUT_S, proxy.mend).start()

    def restart() -> None:
        server.stop()
        server.start()

    figures = prove(
        database,
        [desk, attic],
        24,
        [
            (3, "a worker of desk is killed", desk.kill_a_worker),
            (6, "the server is restarted", restart),
            (9, "the network of attic is cut", cut),
            (16, "a worker is frozen", partial(freeze_until_taken_over, database, desk)),
        ],
        limit_s=120.0,
    )
    proxy.close()
    assert figures.replayed.out_of_order == []
    assert (figures.lost, figures.doubled, figures.left) == (0, 0, 0), figures.told()
    assert {owner.partition("/")[0] for owner in figures.by_worker} == {"desk", "attic"}


def test_a_log_out_of_order_or_with_a_job_given_twice_is_found_out() -> None:
    places = {1: (0.0, 1), 2: (0.0, 2), 3: (-1.0, 3)}
    claim = "desk/cpu#1 took J-{}, attempt 1."
    in_order = [("job.claimed", claim.format(each)) for each in (3, 1, 2)]
    assert replay(in_order, places).out_of_order == []
    assert replay(in_order[::-1], places).out_of_order == [
        "J-2 was claimed before J-3",
        "J-1 was claimed before J-3",
    ]
    assert replay([*in_order, in_order[0]], places).out_of_order == ["J-3 was claimed while another had it"]
    back = ("job.requeued", "J-3 goes back to its place: the lease of attempt 1 ran out.")
    assert replay([in_order[0], back, *in_order], places).out_of_order == []


@pytest.fixture
def workers(tmp_path: Path, url: str) -> Iterator[Workers]:
    made = Workers(tmp_path, url)
    yield made
    made.end()
    wait_for(lambda: not processes_of(tmp_path))


@pytest.mark.parametrize("wrong", ["who holds the job", "who would take it over"])
def test_a_clock_that_is_an_hour_ahead_gives_and_takes_no_lease(
    workers: Workers, database: Database, wrong: str
) -> None:
    slow = FASTER | {"simulated.request_s": 0.1}
    enqueue_job(database, start_campaign(database), partial(a_test_job, slow))
    hours = {"who holds the job": 0, "who would take it over": 0, wrong: 1}
    ahead = {who: {"TESTS_CLOCK_AHEAD_S": str(3600 * hour)} for who, hour in hours.items()}
    workers.start(lease_s=30, TESTS_HOST="attic", **ahead["who holds the job"])
    wait_for(lambda: lease_left_s(database) is not None)
    left_s = lease_left_s(database)
    assert left_s is not None
    assert 0 < left_s <= 30
    workers.start(lease_s=30, TESTS_HOST="desk", **ahead["who would take it over"])
    wait_for(lambda: all_done(database))
    with database.read() as session:
        job = session.scalars(select(Job)).one()
    assert job.attempt == 1
    assert job.owner is not None
    assert job.owner.startswith("attic/")


def lease_left_s(database: Database) -> float | None:
    with database.read() as session:
        found = session.execute(
            select(Job.lease_expires_at, now()).where(Job.state == JobState.RUNNING)
        ).first()
    return None if found is None else (found[0] - found[1]).total_seconds()
