"""Two hosts against one real PostgreSQL, and one host on SQLite, while everything that can befall them does.

A worker is killed, a run is killed, a worker is frozen for longer than its lease and woken, the server is
killed under load and started again, one host's network is cut for a minute, the other's stands still for a
while and delivers late, and one host's clock is an hour ahead. Of 400 jobs none may be lost, none recorded
twice, and each claim must have been of the first job that waited. It takes minutes, so that `make bench` runs
it: the figures are printed. It runs the same with fewer jobs and shorter troubles in tests/integration/hosts,
where the suite has each trouble alone.
"""

import signal
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from db.session import open_database
from tests import postgresql
from tests.hosts.chaos import Figures, Host, freeze_until_taken_over, prove
from tests.new_database import database_url, new_database
from tests.proxy import Proxy

JOBS = 400
CUT_S = 60.0
STALL_S = 15.0
DOWN_S = 3.0
LIMIT_S = 1500.0

pytestmark = [pytest.mark.bench_only, pytest.mark.timeout(1800)]


def cut(proxy: Proxy, seconds: float) -> None:
    """Cut the network, and mend it after that time, while everything else goes on."""
    proxy.cut()
    threading.Timer(seconds, proxy.mend).start()


def stall(proxy: Proxy, seconds: float) -> None:
    proxy.cut()
    threading.Timer(seconds, proxy.go_on).start()


def restart(server: postgresql.Server, down_s: float) -> None:
    server.stop(signal.SIGQUIT)
    time.sleep(down_s)
    server.start()


def check(figures: Figures) -> None:
    print(f"\n{figures.told()}")
    assert figures.replayed.out_of_order == []
    assert (figures.lost, figures.doubled, figures.left) == (0, 0, 0)


def test_two_hosts_on_one_postgresql(tmp_path: Path) -> None:
    assert postgresql.programs() is not None, postgresql.MISSING
    with postgresql.serving(synced=True) as server:
        name = server.new_database()
        database = open_database(server.url(name))
        proxies = [Proxy(server.port), Proxy(server.port)]
        clocks: tuple[dict[str, str], ...] = ({}, {"TESTS_CLOCK_AHEAD_S": "3600"})
        desk, attic = (
            Host(host, tmp_path / host, server.url(name, port=proxy.port), **clock)
            for host, proxy, clock in zip(("desk", "attic"), proxies, clocks, strict=True)
        )
        figures = prove(
            database,
            [desk, attic],
            JOBS,
            [
                (20, "a worker of desk is killed", desk.kill_a_worker),
                (50, "a run of attic is killed", attic.kill_a_run),
                (
                    80,
                    "a worker of attic is frozen until its lease has run out",
                    partial(freeze_until_taken_over, database, attic),
                ),
                (120, f"the server is killed, {DOWN_S:.0f} s", partial(restart, server, DOWN_S)),
                (160, f"the network of attic is cut, {CUT_S:.0f} s", partial(cut, proxies[1], CUT_S)),
                (
                    280,
                    f"the network of desk stands still, {STALL_S:.0f} s",
                    partial(stall, proxies[0], STALL_S),
                ),
                (320, "a worker of attic is killed", attic.kill_a_worker),
                (360, f"the server is killed, {DOWN_S:.0f} s", partial(restart, server, DOWN_S)),
            ],
            LIMIT_S,
        )
        database.close()
        for proxy in proxies:
            proxy.close()
    check(figures)


def test_one_host_on_sqlite(tmp_path: Path) -> None:
    database = new_database(tmp_path)
    desk = Host("desk", tmp_path / "desk", database_url(tmp_path))
    figures = prove(
        database,
        [desk],
        JOBS,
        [
            (40, "a worker is killed", desk.kill_a_worker),
            (100, "a run is killed", desk.kill_a_run),
            (
                160,
                "a worker is frozen until its lease has run out",
                partial(freeze_until_taken_over, database, desk),
            ),
            (240, "a worker is killed", desk.kill_a_worker),
            (
                320,
                "a worker is frozen until its lease has run out",
                partial(freeze_until_taken_over, database, desk),
            ),
        ],
        LIMIT_S,
    )
    database.close()
    check(figures)
