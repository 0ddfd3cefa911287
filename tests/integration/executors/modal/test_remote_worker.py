"""The worker of rented machines with the executor of Modal: a queued job becomes a call, and its rows."""

from pathlib import Path

from sqlalchemy import select

from db import money
from db.models import Experiment, Job, Measurement
from db.states import BudgetScope, JobState
from experiments.remote.settings import RemoteTimes
from experiments.remote.worker import RemoteWorker
from tests.new_database import new_database
from tests.simulated.modal.places import ModalPlace
from tests.simulated.queueing import enqueue_job, start_campaign
from tests.simulated.specs import a_test_job

TARGET = "modal:cpu"


def test_a_job_that_is_queued_for_modal_runs_there_and_is_recorded_here(
    place: ModalPlace, tmp_path: Path
) -> None:
    database = new_database(tmp_path)
    try:
        campaign = start_campaign(database)
        with database.write() as session:
            money.set_budget(session, BudgetScope.TARGET, TARGET, money.microusd(100.0), None)
        experiment, job = enqueue_job(
            database, campaign, lambda **ids: a_test_job(device=TARGET, **ids), device_class=TARGET
        )
        worker = RemoteWorker(
            database,
            place.executor(),
            TARGET,
            at_once=4,
            times=RemoteTimes(lease_s=30.0, look_s=0.05, soonest_s=0.05, latest_s=0.1),
            logs_root=tmp_path / "jobs",
        )
        assert worker.run(once=True) == 1
        with database.read() as session:
            assert session.get_one(Job, job).state == JobState.DONE
            assert session.get_one(Experiment, experiment).failure_kind is None
            assert session.scalars(select(Measurement)).first() is not None
        [log] = (tmp_path / "jobs").glob("*/log.txt")
        assert "quick: time launch pair 1" in log.read_text()
    finally:
        database.close()
