"""The page of devices on a real app: HTML, twins, stream; means that are kept, and how often is read."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

import psutil
import pytest
from starlette.testclient import TestClient

from configs.settings import Settings
from dashboard.app import create_app
from dashboard.devices import Devices
from db import queue
from db.session import Database
from experiments.telemetry.collect import INTERVAL_S, MEASURED_INTERVAL_S
from experiments.telemetry.keeping import keep, kept
from experiments.telemetry.means import WINDOW_S, DeviceMean, window_means, window_of
from experiments.telemetry.trace import named_recording, read_trace
from experiments.telemetry.trace import replayed as replay
from knowledge.queries.devices import on_devices
from tests.integration.dashboard.serving import serving
from tests.integration.dashboard.test_log_page import first_push, get
from tests.new_database import new_database
from tests.unit.telemetry.synthetic import BEGUN, cpu, gpu, sample
from tests.waiting import PATIENCE_S


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = new_database(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def replayed() -> Devices:
    """The packaged recording of a real GPU, played for half a minute already."""
    found = Devices(read_trace(named_recording(Path("h200"))))
    assert found.trace is not None
    for each in islice(replay(found.trace, datetime.now(UTC) - timedelta(seconds=30)), 30):
        found.history.add(each)
    return found


def running(database: Database, device: str) -> None:
    with database.write() as session:
        queue.enqueue(session, "experiment", {}, device_class=device.rpartition("/")[2])
        assert queue.claim(session, f"{device}#1", device, [device.rpartition("/")[2]], 60) is not None


def test_the_page_its_twins_and_its_stream(tmp_path: Path, database: Database, replayed: Devices) -> None:
    running(database, f"{replayed.host}/cuda:0")
    with TestClient(
        create_app(Settings(data_dir=tmp_path), database, devices=replayed), base_url="http://127.0.0.1"
    ) as client:
        page = client.get("/gpus")
        assert page.status_code == 200
        assert "A recording of NVIDIA H200, 2026-11-22 12:59:22 UTC" in page.text
        assert 'hx-sse:connect="/gpus.stream' in page.text
        view = client.get("/gpus.json?step_s=1").json()
        assert view["replay"].startswith("A recording of NVIDIA H200")
        device = view["devices"][0]
        assert device["model"] == "NVIDIA H200"
        assert device["place"] == "the recorded machine, GPU 0"
        assert device["on"]["kind"] == "experiment"
        assert len(device["readings"][0]["series"]) == 600
        rows = list(csv.DictReader(io.StringIO(client.get("/gpus.csv").text)))
        assert {row["reading"] for row in rows} == {"utilization", "memory", "power", "temperature", "clock"}
        assert "/gpus.json" in client.get("/openapi.json").json()["paths"]
        assert client.get("/gpus?step_s=0").status_code == 422
        tiles = client.get("/gpus/tiles.json").json()
        assert [each["model"] for each in tiles["devices"]] == ["NVIDIA H200"]
        assert "Not of now." in client.get("/gpus/tiles").text


def test_means_of_a_window_are_kept(database: Database) -> None:
    devices = Devices()
    for second in range(300):
        devices.history.add(sample(second, host=devices.host))
    devices.keep(database, BEGUN)
    devices.keep(database, BEGUN - timedelta(minutes=5))
    with database.read() as session:
        means = kept(session, BEGUN - timedelta(days=1))
    assert [(mean.device, mean.samples, mean.read_s, mean.power_w) for mean in means] == [
        ("cpu", 300, 300.0, None),
        ("cuda:0", 300, 300.0, 432.0),
    ]


async def watching(devices: Devices, database: Database, done: Callable[[], bool]) -> None:
    """Watch devices until it is done, and end as a server does."""
    task = asyncio.create_task(devices.run(database))
    async with asyncio.timeout(PATIENCE_S):
        while not done():
            await asyncio.sleep(0.02)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def means_kept(database: Database) -> list[DeviceMean]:
    with database.read() as session:
        return list(kept(session, BEGUN))


def test_a_window_that_is_not_over_is_kept_at_the_end(database: Database) -> None:
    devices = Devices()
    asyncio.run(watching(devices, database, lambda: bool(devices.history.devices(BEGUN))))
    assert {mean.host for mean in means_kept(database)} == {devices.host}


def test_what_another_dashboard_kept_of_the_window_is_added_to(database: Database) -> None:
    devices = Devices()
    devices.history.add(sample(0, cpu(), host=devices.host))
    [read] = window_means(devices.history.devices(BEGUN), BEGUN)
    now = window_of(datetime.now(UTC))
    with database.write() as session:  # of the next too, which may begin meanwhile
        for window in (now, now + timedelta(seconds=WINDOW_S)):
            keep(session, [replace(read, started_at=window, samples=50, read_s=100.0)])
    begun = Devices()
    asyncio.run(watching(begun, database, lambda: bool(begun.history.devices(BEGUN))))
    found = [mean for mean in means_kept(database) if mean.device == read.device and mean.samples > 50]
    assert found
    assert all(mean.read_s is not None and mean.read_s > 100.0 for mean in found)


def test_a_window_that_is_not_over_is_kept_every_now_and_then(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a machine that goes away at once leaves its last minutes too."""
    monkeypatch.setattr("dashboard.devices.LOOK_S", 0.05)
    monkeypatch.setattr("dashboard.devices.KEEP_EVERY_S", 0.1)
    asyncio.run(watching(Devices(), database, lambda: bool(means_kept(database))))


def test_means_of_all_windows_since_the_last_one_are_kept(database: Database) -> None:
    devices = Devices()
    for second in range(0, 700, 10):
        devices.history.add(sample(second, host=devices.host))
    now = BEGUN + timedelta(seconds=700)
    assert devices.keep_since(database, BEGUN, now) == BEGUN + timedelta(seconds=600)
    cards = [mean for mean in means_kept(database) if mean.device == "cuda:0"]
    assert [(each.started_at - BEGUN).total_seconds() for each in cards] == [0, 300, 600]


def test_a_dashboard_that_begins_within_a_window_adds_to_what_another_kept_of_it(database: Database) -> None:
    first, second = Devices(), Devices()
    for at in range(0, 100, 5):
        first.history.add(sample(at, gpu(power_w=500.0), host=first.host))
    first.keep(database, BEGUN)
    second.begin(database, BEGUN)
    for at in range(200, 300):
        second.history.add(sample(at, gpu(power_w=100.0), host=second.host))
        if at in (230, 299):
            second.keep(database, BEGUN)
    [mean] = means_kept(database)
    assert (mean.samples, mean.read_s, mean.power_w) == (120, 200.0, pytest.approx(300.0))


def test_two_dashboards_at_once_count_no_second_twice(database: Database) -> None:
    first, second = Devices(), Devices()
    for at in range(300):
        first.history.add(sample(at, gpu(), host=first.host))
        if at == 100:
            first.keep(database, BEGUN)
            second.begin(database, BEGUN)
        if at > 100:
            second.history.add(sample(at, gpu(), host=second.host))
        if at % 60 == 59:
            first.keep(database, BEGUN)
            second.keep(database, BEGUN)
    [mean] = means_kept(database)
    assert (mean.samples, mean.read_s) == (300, 300.0)


def test_sampling_slows_down_while_these_processors_are_measured_and_only_then(database: Database) -> None:
    devices = Devices()
    assert devices.wanted_interval_s(database) == INTERVAL_S
    running(database, f"{devices.host}/cuda:0")
    running(database, "another-host/cpu")
    assert devices.wanted_interval_s(database) == INTERVAL_S
    running(database, f"{devices.host}/cpu")
    assert devices.wanted_interval_s(database) == MEASURED_INTERVAL_S
    with database.read() as session:
        assert on_devices(session)[f"{devices.host}/cpu"].experiment is None


def test_a_server_that_ends_leaves_no_collector(database: Database) -> None:
    devices = Devices()
    before = {child.pid for child in psutil.Process().children()}
    asyncio.run(watching(devices, database, lambda: bool(devices.history.devices(BEGUN))))
    assert {child.pid for child in psutil.Process().children()} <= before


def test_the_stream_pushes_the_page_again_and_again(tmp_path: Path) -> None:
    new_database(tmp_path).close()
    with serving(tmp_path) as address:
        first, html = first_push(f"{address}/gpus.stream", {})
        assert "<html" not in html
        assert "No reading yet." in html or "Utilization" in html
        second, _ = first_push(f"{address}/gpus.stream?known={2**40}", {})
        assert second > first
        assert json.loads(get(f"{address}/gpus.json")[1])["replay"] is None
