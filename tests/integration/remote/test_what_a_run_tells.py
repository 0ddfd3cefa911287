"""What a rented machine tells comes here while it works, and which GPU it was decides what is recorded."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import func, select

from db import money
from db.models import Event, Experiment, Job, JsonObject, Measurement, NoiseLaunch
from db.models.device import DeviceMean
from db.session import Database
from db.states import BudgetScope, ExperimentState, JobState
from experiments.executors.port import RentedMachine
from experiments.remote.settings import RemoteTimes
from experiments.remote.worker import RemoteWorker
from experiments.worker.log_tails import log_tails
from tests.simulated.gpu_samples import made_up_sampler
from tests.simulated.queueing import enqueue_job
from tests.simulated.remote_executor import FileProvider
from tests.simulated.specs import a_test_job
from tests.waiting import wait_for

TARGET = "files:L4"


class Renting(FileProvider):
    """The provider in files, which names the GPU that it rents out."""

    @classmethod
    def machine(cls, target: str) -> RentedMachine:
        return RentedMachine("l4", 2, 8 * 2**30)


@pytest.fixture
def renting(tmp_path: Path, records: bytes) -> Renting:
    made = Renting(tmp_path / "jobs", target=TARGET)
    (made.cloud / "records.jsonl").write_bytes(records)
    return made


@pytest.fixture
def experiment(database: Database, campaign: int) -> int:
    with database.write() as session:
        money.set_budget(session, BudgetScope.TARGET, TARGET, money.microusd(100.0), None)
    return enqueue_job(database, campaign, lambda **ids: a_test_job(**ids), device_class=TARGET)[0]


def tells(renting: Renting, ref: str, gpu: str, log: str) -> None:
    """The machine there has read its GPU once more, and a launch has written this."""
    made_up = made_up_sampler(gpu)
    assert made_up is not None
    sample = made_up()
    [reading, _] = sample.devices
    device = {"name": "cuda:0", "kind": "gpu", "model": reading.model, "power_w": reading.power_w}
    device["memory_total_bytes"] = reading.memory_total_bytes
    lines = [
        {"gpu": {"at": datetime.now(UTC).isoformat(), "devices": [device]}},
        {"launch": "quick-candidate-0.log", "text": log},
    ]
    with (renting.cloud / ref / "extras.jsonl").open("a") as file:
        file.writelines(json.dumps(each) + "\n" for each in lines)


def settled(database: Database) -> JsonObject | None:
    with database.read() as session:
        return session.scalar(select(Event.data).where(Event.kind == "job.settled"))


def turned(worker: RemoteWorker, done: Callable[[], bool]) -> None:
    """Turns of the worker until it has seen this."""

    def turn() -> bool:
        worker.turn()
        return done()

    wait_for(turn)


def worker_of(database: Database, renting: Renting, folder: Path) -> RemoteWorker:
    times = RemoteTimes(lease_s=30.0, look_s=0.0, soonest_s=0.0, latest_s=0.0)
    made = RemoteWorker(database, renting, TARGET, times=times, logs_root=folder / "jobs")
    made.begin()
    made.turn()
    return made


def test_samples_and_logs_of_launches_come_while_it_runs_and_means_are_kept(
    database: Database, renting: Renting, experiment: int, tmp_path: Path
):
    worker = worker_of(database, renting, tmp_path)
    [ref] = renting.reconcile()
    key = ref.removeprefix("fc-")
    renting.tell(ref, 1)
    tells(renting, ref, "NVIDIA L4,24", "loading weights\n")
    copied = tmp_path / "jobs" / key / "gpu.jsonl"
    turned(worker, copied.exists)
    tells(renting, ref, "NVIDIA L4,24", "ready\n")
    turned(worker, lambda: len(copied.read_text().splitlines()) == 2)
    [tail] = log_tails(tmp_path / "jobs", key, "quick") or ()
    assert (tail.name, tail.text) == ("quick-candidate-0.log", "loading weights\nready\n")
    assert settled(database) is None
    renting.end(ref)
    turned(worker, lambda: settled(database) is not None)
    with database.read() as session:
        [mean] = session.scalars(select(DeviceMean))
        assert (mean.host, mean.device, mean.model, mean.samples) == (TARGET, "J-1", "NVIDIA L4", 2)
        assert session.scalar(select(func.count()).select_from(Measurement))
        assert session.get_one(Experiment, experiment).failure_kind is None
    told = settled(database) or {}
    assert (told["asked"], told["got"]) == (TARGET, ["NVIDIA L4 with 24 GB"])


def test_a_result_of_another_gpu_than_was_asked_for_is_not_recorded(
    database: Database, renting: Renting, experiment: int, tmp_path: Path
):
    worker = worker_of(database, renting, tmp_path)
    [ref] = renting.reconcile()
    tells(renting, ref, "NVIDIA L40S,48", "")
    renting.end(ref)
    turned(worker, lambda: settled(database) is not None)
    with database.read() as session:
        assert session.scalars(select(Job.state)).all() == [JobState.DONE]
        assert session.scalar(select(func.count()).select_from(Measurement)) == 0
        assert session.scalar(select(func.count()).select_from(NoiseLaunch)) == 0
        found = session.get_one(Experiment, experiment)
        assert (found.state, found.failure_kind) == (ExperimentState.DONE, "error")
        assert found.failure == (
            "files gave NVIDIA L40S with 48 GB where L4 was asked for; "
            "times of another GPU are not compared, so nothing of it is kept."
        )
    assert (settled(database) or {})["got"] == ["NVIDIA L40S with 48 GB"]
