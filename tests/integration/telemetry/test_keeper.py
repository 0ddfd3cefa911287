"""What reads this machine and keeps means of it: what is kept, how often is read, and after failures."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from db import queue
from db.session import Database, open_database
from experiments.telemetry.collect import INTERVAL_S, MEASURED_INTERVAL_S
from experiments.telemetry.history import History
from experiments.telemetry.keeper import KEEP_EVERY_S, Keeper
from experiments.telemetry.keeping import kept
from experiments.telemetry.means import DeviceMean
from knowledge.queries.devices import on_devices
from tests.integration.telemetry.told import Told
from tests.new_database import new_database
from tests.simulated.queueing import database_url
from tests.unit.telemetry.synthetic import BEGUN, gpu, sample


class Reading:
    """A keeper and the history that it keeps means of."""

    def __init__(self) -> None:
        self.history = History()
        self.keeper = Keeper(self.history, source=Told)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = new_database(tmp_path)
    yield opened
    opened.close()


def running(database: Database, device: str) -> None:
    with database.write() as session:
        queue.enqueue(session, "experiment", {}, device_class=device.rpartition("/")[2])
        assert queue.claim(session, f"{device}#1", device, [device.rpartition("/")[2]], 60) is not None


def means_kept(database: Database) -> list[DeviceMean]:
    with database.read() as session:
        return list(kept(session, BEGUN))


def test_means_of_a_window_are_kept(database: Database) -> None:
    devices = Reading()
    for second in range(300):
        devices.history.add(sample(second, host=devices.keeper.host))
    devices.keeper.keep(database, BEGUN)
    devices.keeper.keep(database, BEGUN - timedelta(minutes=5))
    with database.read() as session:
        means = kept(session, BEGUN - timedelta(days=1))
    assert [(mean.device, mean.samples, mean.read_s, mean.power_w) for mean in means] == [
        ("cpu", 300, 300.0, None),
        ("cuda:0", 300, 300.0, 432.0),
    ]


def test_means_of_all_windows_since_the_last_one_are_kept(database: Database) -> None:
    devices = Reading()
    for second in range(0, 700, 10):
        devices.history.add(sample(second, host=devices.keeper.host))
    now = BEGUN + timedelta(seconds=700)
    assert devices.keeper.keep_since(database, BEGUN, now) == BEGUN + timedelta(seconds=600)
    cards = [mean for mean in means_kept(database) if mean.device == "cuda:0"]
    assert [(each.started_at - BEGUN).total_seconds() for each in cards] == [0, 300, 600]


def test_a_process_that_begins_within_a_window_adds_to_what_another_kept_of_it(database: Database) -> None:
    first, second = Reading(), Reading()
    for at in range(0, 100, 5):
        first.history.add(sample(at, gpu(power_w=500.0), host=first.keeper.host))
    first.keeper.keep(database, BEGUN)
    second.keeper.take_in(database, BEGUN)
    for at in range(200, 300):
        second.history.add(sample(at, gpu(power_w=100.0), host=second.keeper.host))
        if at in (230, 299):
            second.keeper.keep(database, BEGUN)
    [mean] = means_kept(database)
    assert (mean.samples, mean.read_s, mean.power_w) == (120, 200.0, pytest.approx(300.0))


def test_two_processes_at_once_count_no_second_twice(database: Database) -> None:
    first, second = Reading(), Reading()
    for at in range(300):
        first.history.add(sample(at, gpu(), host=first.keeper.host))
        if at == 100:
            first.keeper.keep(database, BEGUN)
            second.keeper.take_in(database, BEGUN)
        if at > 100:
            second.history.add(sample(at, gpu(), host=second.keeper.host))
        if at % 60 == 59:
            first.keeper.keep(database, BEGUN)
            second.keeper.keep(database, BEGUN)
    [mean] = means_kept(database)
    assert (mean.samples, mean.read_s) == (300, 300.0)


def test_sampling_slows_down_while_these_processors_are_measured_and_only_then(database: Database) -> None:
    devices = Reading()
    assert devices.keeper.wanted_interval_s(database) == INTERVAL_S
    running(database, f"{devices.keeper.host}/cuda:0")
    running(database, "another-host/cpu")
    assert devices.keeper.wanted_interval_s(database) == INTERVAL_S
    running(database, f"{devices.keeper.host}/cpu")
    assert devices.keeper.wanted_interval_s(database) == MEASURED_INTERVAL_S
    with database.read() as session:
        assert on_devices(session)[f"{devices.keeper.host}/cpu"].experiment is None


def test_a_database_that_cannot_be_written_is_tried_again_and_told_of_once(
    database: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    read = Reading()
    hasty = open_database(database_url(tmp_path), busy_timeout_s=0.05)
    read.keeper.begin(hasty, BEGUN)
    later = BEGUN + timedelta(seconds=KEEP_EVERY_S)
    read.history.add(sample(1, gpu(), host=read.keeper.host))
    read.history.add(sample(2, gpu(), host=read.keeper.host))
    with caplog.at_level(logging.WARNING), database.write():
        read.keeper.look(hasty, later)
        read.keeper.look(hasty, later)
    assert means_kept(database) == []
    [told] = caplog.messages
    assert told.startswith("The means of the devices could not be kept; it is tried again: ")
    read.keeper.look(hasty, later)
    assert [mean.samples for mean in means_kept(database)] == [2]
    hasty.close()
