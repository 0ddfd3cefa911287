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
from experiments.telemetry.keeping import keep, kept
from experiments.telemetry.means import WINDOW_S, DeviceMean, window_means, window_of
from experiments.telemetry.trace import named_recording, read_trace
from experiments.telemetry.trace import replayed as replay
from tests.integration.dashboard.serving import serving
from tests.integration.dashboard.test_log_page import first_push, get
from tests.new_database import new_database
from tests.unit.telemetry.synthetic import BEGUN, cpu, sample
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
    monkeypatch.setattr("experiments.telemetry.keeper.KEEP_EVERY_S", 0.1)
    asyncio.run(watching(Devices(), database, lambda: bool(means_kept(database))))


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
