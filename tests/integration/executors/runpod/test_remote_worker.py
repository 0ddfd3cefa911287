"""The worker of rented machines with the executor of RunPod: a queued job becomes a pod, and its rows."""

from pathlib import Path

from sqlalchemy import select

from db import money
from db.models import Experiment, Job, Measurement, RemoteRun
from db.session import open_database
from db.states import BudgetScope, JobState
from experiments.remote.ending import strangers
from experiments.remote.settings import RemoteTimes
from experiments.remote.worker import RemoteWorker
from tests import postgresql
from tests.simulated.queueing import enqueue_job, start_campaign
from tests.simulated.runpod.places import RunPodPlace
from tests.simulated.specs import a_test_job

TARGET = "runpod:cpu"


def test_a_job_that_is_queued_for_runpod_runs_there_and_is_recorded_and_paid_here(
    place: RunPodPlace, pods_server: postgresql.Server, tmp_path: Path
):
    """The queue and the board are two databases of one server."""
    database = open_database(pods_server.url(pods_server.new_database()))
    try:
        campaign = start_campaign(database)
        with database.write() as session:
            money.set_budget(session, BudgetScope.TARGET, TARGET, money.microusd(100.0), None)
        experiment, job = enqueue_job(
            database, campaign, lambda **ids: a_test_job(device=TARGET, **ids), device_class=TARGET
        )
        executor = place.executor()
        worker = RemoteWorker(
            database,
            executor,
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
            (run,) = session.scalars(select(RemoteRun))
            assert run.actual_microusd is not None
            assert 0 < run.actual_microusd < run.reserved_microusd
            assert run.ref == f"autoinfer-{run.key}"
            assert run.key.startswith(f"job{job}-")
        (log,) = (tmp_path / "jobs").glob("*/log.txt")
        assert "quick: time launch pair 1" in log.read_text()
        place.fake.hold = True
        place.fake.create({"name": "autoinfer-job99-0000aaaa-1"})
        place.fake.create({"name": f"autoinfer-{run.key}"})
        found = strangers(database, "runpod", executor, end=True)
        assert [(each.ref, each.job, each.ended) for each in found] == [
            (f"autoinfer-{run.key}", f"J-{job}", True),
            ("autoinfer-job99-0000aaaa-1", None, False),
        ]
        assert [pod.name for pod in place.fake.pods.values()] == ["autoinfer-job99-0000aaaa-1"]
        (other,) = strangers(database, "runpod", executor, end=True, others=True)
        assert other.ended
        assert place.fake.pods == {}
    finally:
        database.close()
