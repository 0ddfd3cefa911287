"""The worker of rented machines with the executor of Modal: a queued job becomes a call, and its rows."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select

from db import money
from db.agreed_prices import agree
from db.models import Experiment, Job, Measurement
from db.session import Database
from db.states import BudgetScope, JobState
from experiments.executors.modal.executor import ModalExecutor
from experiments.executors.modal.prices import current_rates
from experiments.job.place import Place
from experiments.remote.settings import RemoteTimes
from experiments.remote.worker import RemoteWorker
from tests.integration.worker.processes import events_of
from tests.new_database import new_database
from tests.simulated.modal.places import QUICK, ModalPlace
from tests.simulated.queueing import enqueue_job, start_campaign
from tests.simulated.specs import a_test_job

TARGET = "modal:cpu"


TIMES = RemoteTimes(lease_s=30.0, look_s=0.05, soonest_s=0.05, latest_s=0.1, fresh_s=0.0)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = new_database(tmp_path)
    with opened.write() as session:
        money.set_budget(session, BudgetScope.TARGET, TARGET, money.microusd(100.0), None)
    yield opened
    opened.close()


def queued(database: Database, campaign: int, **more: object) -> tuple[int, int]:
    return enqueue_job(
        database, campaign, lambda **ids: a_test_job(device=TARGET, **more, **ids), device_class=TARGET
    )


def test_a_job_that_is_queued_for_modal_runs_there_and_is_recorded_here(
    place: ModalPlace, database: Database, tmp_path: Path
) -> None:
    experiment, job = queued(database, start_campaign(database))
    executor = place.executor()
    worker = RemoteWorker(database, executor, TARGET, at_once=4, times=TIMES, logs_root=tmp_path / "jobs")
    assert worker.run(once=True) == 1
    with database.read() as session:
        assert session.get_one(Job, job).state == JobState.DONE
        assert session.get_one(Experiment, experiment).failure_kind is None
        assert session.scalars(select(Measurement)).first() is not None
    [log] = (tmp_path / "jobs").glob("*/log.txt")
    assert "quick: time launch pair 1" in log.read_text()


def test_a_disk_that_is_full_on_modal_is_told_as_its_own_and_paid_for_once(
    place: ModalPlace, database: Database, tmp_path: Path
) -> None:
    full = {"simulated.fails": "load", "simulated.says": "OSError: [Errno 28] No space left on device"}
    experiment, job = queued(database, start_campaign(database), candidate=full)
    worker = RemoteWorker(database, place.executor(), TARGET, times=TIMES, logs_root=tmp_path / "jobs")
    assert worker.run(once=True) == 1
    assert len(place.fake.calls) == 1
    with database.read() as session:
        failed = session.get_one(Experiment, experiment)
        assert session.get_one(Job, job).state == JobState.FAILED
    assert (failed.failure_kind, failed.failure) == (
        "disk_full",
        f"A disk is full on a rented machine of {TARGET}: The simulated engine failed because a disk is "
        "full: no space is left on the disk. Its disk comes with the machine: take a target with a larger "
        "one, or a smaller model.",
    )


def test_a_price_that_modal_raises_after_it_was_told_submits_nothing_before_it_is_approved(
    place: ModalPlace, database: Database
) -> None:
    """A worker that lives on, as Modal's real library asks for the rates and the fake of Modal tells them."""
    place.fake.rates = {"cpu": "0.00001", "memory": "0.000002"}
    patience = replace(QUICK, rates_s=0.0)
    folder = Place(artifacts_dir=place.folder / "artifacts", cache_dir=place.folder / "cache")
    executor = ModalExecutor(place.folder / "jobs", folder, TARGET, patience=patience, rates=current_rates)
    campaign = start_campaign(database)
    quote = executor.quote(a_test_job())
    with database.write() as session:
        agree(session, campaign, {TARGET: quote.upper_bound_usd / quote.upper_bound_s})
    place.fake.rates["memory"] = "0.000006"
    queued(database, campaign)
    worker = RemoteWorker(database, executor, TARGET, times=TIMES)
    worker.begin()
    worker.turn()
    assert len(place.fake.calls) == 0
    [held] = events_of(database, "job.held")
    assert (
        "at the price that you were told; you are asked again. Approve it with: autoinfer approve J-1" in held
    )
