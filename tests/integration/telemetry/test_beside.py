"""Means kept beside a worker: by one process at a time, and by none while a dashboard does."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.devices import Devices
from db.session import Database
from experiments.telemetry.beside import Here, kept_beside
from experiments.telemetry.history import History
from experiments.telemetry.keeper import KEEP_EVERY_S
from experiments.telemetry.keeping import kept
from experiments.telemetry.means import WINDOW_S, DeviceMean
from experiments.telemetry.turns import FOLDER, Turns
from tests.integration.telemetry.told import Desk, Told
from tests.new_database import new_database
from tests.outliving import not_outliving
from tests.simulated.queueing import database_url
from tests.unit.telemetry.synthetic import BEGUN
from tests.waiting import PATIENCE_S, wait_for

LOOK_S = 0.002


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = new_database(tmp_path)
    yield opened
    opened.close()


def means_kept(database: Database) -> list[DeviceMean]:
    with database.read() as session:
        return list(kept(session, BEGUN - timedelta(days=1)))


class Place:
    """A folder of locks on a desk, for one database."""

    def __init__(self, folder: Path, database: Database) -> None:
        self.desk = Desk()
        self.folder = folder
        self.database = database

    def worker(self) -> AbstractContextManager[None]:
        here = Here("desk", self.desk.source, LOOK_S, self.desk.clock)
        return kept_beside(self.database, self.folder, here)

    def turns(self) -> Turns:
        return Turns(self.folder, "desk", self.database.shown)

    def passed(self, seconds: float) -> None:
        """Wait until so many seconds of the desk are over."""
        until = self.desk.second + seconds
        wait_for(lambda: self.desk.second >= until)


@pytest.fixture
def place(tmp_path: Path, database: Database) -> Place:
    return Place(tmp_path / FOLDER, database)


def test_means_are_kept_every_minute_and_at_the_end_without_a_dashboard(place: Place) -> None:
    with place.worker():
        wait_for(lambda: bool(means_kept(place.database)))
        [first] = means_kept(place.database)
        assert first.samples >= KEEP_EVERY_S - 2
        place.passed(5)
    last = means_kept(place.database)[-1]
    assert (last.host, last.device, last.power_w) == ("desk", "cuda:0", 100.0)
    assert (last.started_at, last.samples) > (first.started_at, first.samples)
    assert place.desk.reading == []


def test_of_two_workers_one_reads_and_the_other_goes_on_when_it_has_ended(place: Place) -> None:
    first, second = place.worker(), place.worker()
    with second:
        wait_for(lambda: place.desk.began == 1)
        with first:
            place.passed(100)
            assert place.desk.began == len(place.desk.reading) == 1
    with place.worker():
        wait_for(lambda: place.desk.began == 2)
        place.passed(100)
    seconds = (place.desk.now - BEGUN).total_seconds()
    means = means_kept(place.database)
    assert 180 <= sum(each.least_read_s for each in means) <= seconds
    assert max(each.least_read_s for each in means) <= WINDOW_S


def test_a_worker_that_is_killed_is_taken_over_from(place: Place, database: Database, tmp_path: Path) -> None:
    program = (
        "import sys\nfrom pathlib import Path\nfrom db.session import open_database\n"
        "from experiments.telemetry.beside import kept_beside\n"
        "database = open_database(sys.argv[1])\n"
        "from experiments.telemetry.beside import Here\n"
        "with kept_beside(database, Path(sys.argv[2]), Here('desk', look_s=0.01)):\n    sys.stdin.read()\n"
    )
    words = [sys.executable, "-c", program, database_url(tmp_path), str(place.folder)]
    other = subprocess.Popen(not_outliving(words), stdin=subprocess.PIPE, cwd=Path(__file__).parents[3])
    try:
        wait_for(lambda: any(place.folder.glob("*.kept")) and not is_free(place))
        with place.worker():
            assert place.desk.began == 0
            other.kill()
            other.wait()
            wait_for(lambda: place.desk.began == 1)
            place.passed(5)
    finally:
        other.kill()
        other.wait()
        assert other.stdin is not None
        other.stdin.close()
    assert [each.device for each in means_kept(database)] == ["cuda:0"]


def is_free(place: Place) -> bool:
    turns = place.turns()
    try:
        return turns.take()
    finally:
        turns.end()


def test_who_waits_for_its_turn_is_taken_for_no_dashboard(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, waits = place.turns(), place.turns()
    assert reads.take()
    monkeypatch.setattr(waits, "is_shown", lambda: pytest.fail("the lock that is looked at is a dashboard's"))
    assert not waits.take()
    assert not reads.is_shown()
    reads.end()


def test_nobody_reads_beside_a_dashboard_and_a_worker_does_from_its_end_on(place: Place) -> None:
    dashboard = place.turns()
    dashboard.show()
    with place.worker():
        wait_for(lambda: is_tried(place))
        assert place.desk.began == 0
        dashboard.end()
        wait_for(lambda: place.desk.began == 1)


def is_tried(place: Place) -> bool:
    return any(place.folder.glob("*.shown"))


def test_a_dashboard_that_begins_takes_over_at_once_where_nothing_was_kept_yet(place: Place) -> None:
    dashboard = place.turns()
    with place.worker():
        wait_for(lambda: place.desk.began == 1)
        dashboard.show()
        wait_for(lambda: place.desk.reading == [])
        assert place.desk.second < KEEP_EVERY_S, "the clock stands while nobody reads"
    dashboard.end()


def test_a_window_that_a_dashboard_began_in_is_kept_whole_by_who_read_its_first_part(place: Place) -> None:
    dashboard = place.turns()
    with place.worker():
        wait_for(lambda: bool(means_kept(place.database)))
        dashboard.show()
        wait_for(lambda: place.desk.reading == [])
    dashboard.end()
    whole, *_ = (each for each in means_kept(place.database) if each.samples > WINDOW_S / 2)
    assert whole.read_s is not None
    assert whole.read_s >= WINDOW_S - 10
    assert place.desk.began == 1


def test_a_dashboard_takes_the_turn_while_it_runs(tmp_path: Path, database: Database) -> None:
    devices = Devices(data_dir=tmp_path)
    others = Turns(tmp_path / FOLDER, devices.host, database.shown)

    async def look() -> None:
        task = asyncio.create_task(devices.run(database))
        async with asyncio.timeout(PATIENCE_S):
            while not others.is_shown():
                await asyncio.sleep(0.02)
        assert not others.take()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(look())
    assert others.take()
    others.end()


def test_of_two_databases_in_a_folder_each_has_its_means(
    place: Place, database: Database, tmp_path: Path
) -> None:
    other = Place(place.folder, new_database(tmp_path / "other"))
    with place.worker(), other.worker():
        wait_for(lambda: place.desk.began == other.desk.began == 1)
        place.passed(5)
        other.passed(5)
    assert all(means_kept(each) for each in (database, other.database))
    other.database.close()


def test_where_nothing_can_be_locked_means_are_kept_all_the_same(place: Place) -> None:
    place.folder.parent.joinpath(FOLDER).write_text("a file in the folder's place")
    with place.worker():
        wait_for(lambda: place.desk.began == 1)
        place.passed(5)
    assert means_kept(place.database)


class _Refusing(Told):
    def start(self) -> None:
        raise OSError(11, os.strerror(11))


def test_a_source_that_fails_ends_nothing_and_is_tried_again(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    tries: list[History] = []

    def refusing(history: History) -> Told:
        tries.append(history)
        return _Refusing(history)

    with kept_beside(place.database, place.folder, Here("desk", refusing, LOOK_S)):
        wait_for(lambda: len(tries) > 1)
    assert caplog.messages == ["The devices could not be read; it is tried again."]
