"""A rented machine on the pages: of its own on the GPU page while it runs, and on its experiment's page."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import select, update
from starlette.testclient import TestClient

from configs.settings import Settings
from dashboard.app import create_app
from dashboard.devices import Devices
from dashboard.pages.experiment_rented import MOST_BYTES
from dashboard.rented import RUNS
from db import money, queue
from db.models import Job, RemoteRun
from db.models.device import DeviceMean as Mean
from db.remote_runs import intend, settle, submitted
from db.session import Database
from experiments.remote.extras import GPU_NAME
from experiments.telemetry.keeping import keep
from experiments.telemetry.means import DeviceMean, window_of
from experiments.telemetry.reading import Sample
from experiments.telemetry.trace import line_of
from tests.new_database import new_database
from tests.simulated.gpu_samples import made_up_sampler
from tests.simulated.queueing import enqueue_job, start_campaign
from tests.simulated.specs import a_test_job

TARGET, KEY = "runpod:L4", "job1-1a2b3c4d-1"


class Rented:
    """A database with a run on a rented machine, the folder that its worker copies to, and the pages."""

    def __init__(self, folder: Path) -> None:
        self.database: Database = new_database(folder)
        self.run_folder = folder / RUNS / KEY
        self.run_folder.mkdir(parents=True)
        enqueue_job(
            self.database, start_campaign(self.database), lambda **ids: a_test_job(**ids), device_class=TARGET
        )
        with self.database.write() as session:
            job = queue.claim_one(session, 1, "here#1", f"{TARGET}/J-1", 60.0)
            assert job is not None
            self.run = intend(
                session,
                job,
                executor="runpod",
                target=TARGET,
                key=KEY,
                expected_s=1.0,
                expected=money.microusd(0.1),
                bound=money.microusd(1.0),
                basis="a test's",
            )
            submitted(session, {self.run.id: f"autoinfer-{KEY}"})
        self.devices = Devices(data_dir=folder)
        app = create_app(Settings(data_dir=folder), self.database, devices=self.devices)
        self.client = TestClient(app, base_url="http://127.0.0.1")

    def tells(self, *seconds: float, gpu: str = "NVIDIA L4,24") -> None:
        """Its worker has copied samples of so many seconds ago, in this order."""
        made_up = made_up_sampler(gpu)
        assert made_up is not None
        now = datetime.now(UTC)
        with (self.run_folder / GPU_NAME).open("a") as file:
            for ago in seconds:
                [reading, _] = made_up().devices
                at = now - timedelta(seconds=ago)
                told = {**vars(reading), "name": "J-1", "processes": None}
                file.write(line_of(Sample(at, TARGET, (type(reading)(**told),))) + "\n")

    def ends(self) -> None:
        with self.database.write() as session:
            settle(session, self.run.id, "done", 60.0, 100)
            session.execute(update(Job).values(state="done"))

    def experiment(self) -> dict:
        found: dict = self.json("/experiments/E-0001.json")["rented_run"]
        return found

    def json(self, address: str) -> dict:
        """What a page tells now: its worker writes to the database all the time, so nothing is kept long."""
        self.count = getattr(self, "count", 0) + 1
        with self.database.write() as session:
            session.execute(update(RemoteRun).values(basis=f"look {self.count}"))
        found: dict = self.client.get(address).json()
        return found


@pytest.fixture
def rented(tmp_path: Path) -> Iterator[Rented]:
    made = Rented(tmp_path)
    yield made
    made.database.close()


def test_it_is_a_machine_of_its_own_that_names_who_rents_it_out_until_its_run_ends(rented: Rented) -> None:
    waiting = rented.json("/gpus.json")["devices"]
    assert [each["place"] for each in waiting] == ["RunPod, J-1"]
    assert "No reading has come yet." in rented.client.get("/gpus").text
    rented.tells(20, 19, 18)
    rented.devices.look_at_rented(rented.database)
    [device] = rented.json("/gpus.json")["devices"]
    assert (device["id"], device["model"], device["local"]) == (f"{TARGET}/J-1", "NVIDIA L4", False)
    assert device["rented"]["got"] == "NVIDIA L4 with 24 GB"
    assert not device["stale"], "batches come late, which is no fault"
    assert device["on"]["experiment"] == "E-0001"
    page = rented.client.get("/gpus").text
    assert "Rented from RunPod: asked for <code>runpod:L4</code>, got NVIDIA L4 with 24 GB." in page
    rented.tells(2)
    rented.devices.look_at_rented(rented.database)
    assert len(rented.devices.history.devices(datetime.now(UTC))[0].moments) == 4
    rented.ends()
    rented.devices.look_at_rented(rented.database)
    assert rented.json("/gpus.json")["devices"] == []


def test_readings_that_stopped_coming_are_stale(rented: Rented) -> None:
    rented.tells(90, 89)
    rented.devices.look_at_rented(rented.database)
    [device] = rented.json("/gpus.json")["devices"]
    assert device["stale"]


def test_the_pages_keep_no_means_of_what_its_worker_keeps(rented: Rented) -> None:
    now = datetime.now(UTC)
    rented.tells(1)
    rented.devices.look_at_rented(rented.database)
    rented.devices.keeper.keep(rented.database, window_of(now))
    with rented.database.read() as session:
        assert session.scalars(select(Mean)).all() == []


def test_its_experiment_tells_what_was_asked_for_and_got_and_leaves_gaps_open(rented: Rented) -> None:
    assert rented.experiment()["source"] is None
    assert "No reading of its GPU has come yet." in rented.client.get("/experiments/E-0001").text
    rented.tells(*range(100, 80, -1), *range(20, 0, -1))
    rented.ends()
    told = rented.experiment()
    assert (told["rented"]["got"], told["live"]) == ("NVIDIA L4 with 24 GB", False)
    assert told["source"] == "samples, one a second"
    assert told["share_read"] == pytest.approx(0.4, abs=0.03)
    use = told["readings"][0]
    assert (use["name"], len(use["spark"])) == ("utilization", 2), "a curve before the gap, and one after"
    assert None in use["series"]
    page = rented.client.get("/experiments/E-0001").text
    assert "The rented machine" in page
    assert "of the time has no reading and is left open" in page


def test_a_long_run_and_one_whose_copy_is_gone_are_told_by_the_means_of_the_database(
    rented: Rented, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = window_of(datetime.now(UTC))
    figures = {"memory_used_bytes": 2.0**30, "power_w": 50.0, "temperature_c": 60.0, "clock_mhz": 1500.0}
    with rented.database.write() as session:
        session.execute(update(RemoteRun).values(created_at=begun + timedelta(seconds=10)))
        for number, use in ((0, 80.0), (2, 60.0)):
            at = begun + timedelta(minutes=5 * number)
            keep(
                session,
                [
                    DeviceMean(
                        TARGET,
                        "J-1",
                        "NVIDIA L4",
                        at,
                        samples=300,
                        utilization_percent=use,
                        throttled_share=0.1,
                        **figures,
                    )
                ],
            )
    told = rented.experiment()
    assert (told["source"], told["step_s"]) == ("means of five minutes", 300.0)
    assert told["readings"][0]["series"] == [80.0, None, 60.0]
    assert told["throttled_share"] == pytest.approx(0.1)
    assert "held down in 10" in rented.client.get("/experiments/E-0001").text
    (rented.run_folder / GPU_NAME).write_bytes(b"x" * (MOST_BYTES + 1))
    assert rented.experiment()["source"] == "means of five minutes"


def test_the_logs_of_launches_that_came_so_far_are_offered_while_it_runs(rented: Rented) -> None:
    launches = rented.run_folder / "launches"
    launches.mkdir()
    (launches / "quick-candidate-0.log").write_text("loading weights\n")
    page = rented.json("/experiments/E-0001/log.json?stage=quick")
    assert page["stages"] == ["quick"]
    assert page["logs"][0]["text"] == "loading weights\n"
