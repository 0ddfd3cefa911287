"""Remote jobs: from the lease to the submit, 1,000 in flight looked at, and taken over after SIGKILL.

The worker and the database are the real ones, SQLite and PostgreSQL; the provider keeps its state in files,
so that what is timed is ours: a real provider's answers come on top. `make bench` runs the large ones.
"""

import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import pytest
from sqlalchemy import func, insert, select, update

from db import money
from db.clock import after
from db.content import put_configuration
from db.models import Experiment, Job, RemoteRun
from db.session import Database, open_database
from db.states import BudgetScope, ExperimentKind, RemoteRunState
from experiments.remote.settings import RemoteTimes
from experiments.remote.worker import RemoteWorker
from experiments.space.configuration import Configuration
from tests.benchmarks.slowness import Promise, slowness
from tests.integration.remote.conftest import any_database, any_url, postgresql
from tests.simulated.queueing import TARGET as MACHINE
from tests.simulated.queueing import start_campaign
from tests.simulated.remote_executor import FileProvider
from tests.simulated.remote_worker_main import TARGET
from tests.simulated.specs import CONTROL, FASTER, PLAN, a_test_job

__all__ = ["any_database", "any_url", "postgresql"]

IN_FLIGHT = 1000
DISPATCHED = 100
MOST_DISPATCH_S = 0.1
MOST_SHARE_OF_A_CORE = 0.05
MOST_REATTACH_S = 10.0
WATCHED_S = 30.0
AGED_S = 600.0
"""Runs of ten minutes: the wait between two looks has grown to its longest."""

ROOT = Path(__file__).parents[2]


def fill(database: Database, jobs: int) -> None:
    """So many experiments and their jobs for the provider, and a budget for all of them."""
    campaign = start_campaign(database)
    spec = a_test_job()
    points = [Configuration.of(CONTROL), Configuration.of(FASTER)]
    with database.write() as session:
        money.set_budget(session, BudgetScope.TARGET, TARGET, money.microusd(10 * jobs), None)
        control, candidate = (put_configuration(session, each.digest, dict(each)) for each in points)
        for number in range(jobs):
            experiment = session.execute(
                insert(Experiment)
                .values(
                    campaign_id=campaign,
                    kind=ExperimentKind.TEST,
                    target=MACHINE,
                    control_configuration_id=control,
                    candidate_configuration_id=candidate,
                    plan=PLAN.model_dump(mode="json"),
                )
                .returning(Experiment.id)
            ).scalar_one()
            data = spec.model_dump(mode="json") | {"campaign_id": campaign, "experiment_id": experiment}
            session.execute(
                insert(Job).values(
                    kind="test",
                    campaign_id=campaign,
                    experiment_id=experiment,
                    spec=data,
                    seq=number,
                    device_class=TARGET,
                    max_attempts=3,
                )
            )


def test_a_job_is_submitted_within_100_ms_of_its_lease(any_database: Database, tmp_path: Path) -> None:
    fill(any_database, DISPATCHED)
    took: list[float] = []
    provider = FileProvider(tmp_path / "jobs", target=TARGET)
    worker = RemoteWorker(any_database, provider, TARGET, at_once=DISPATCHED, on_submit=took.append)
    worker.begin()
    while len(took) < DISPATCHED:
        worker.turn()
    milliseconds = sorted(1000 * each for each in took)
    told = ", ".join(
        f"{share} % within {milliseconds[share * len(took) // 100 - 1]:.1f} ms" for share in (50, 90, 99)
    )
    print(f"\nfrom the look into the queue to the submit, of {len(took)}: {told}")
    Promise("s from the look into the queue to the submit (median)", MOST_DISPATCH_S).hold(median(took))


@pytest.mark.bench_only
@pytest.mark.timeout(600)
def test_a_thousand_runs_are_taken_over_and_looked_at_for_little(
    any_database: Database, any_url: str, tmp_path: Path
) -> None:
    fill(any_database, IN_FLIGHT)
    provider = FileProvider(tmp_path / "jobs", target=TARGET)
    first = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tests.simulated.remote_worker_main",
            any_url,
            str(tmp_path),
            "60",
            "at-once=1000",
        ],
        cwd=ROOT,
    )
    in_flight = select(func.count()).select_from(RemoteRun).where(RemoteRun.state == RemoteRunState.SUBMITTED)
    found = 0
    while found < IN_FLIGHT:
        assert first.poll() is None
        time.sleep(0.5)
        with any_database.read() as session:
            found = session.execute(in_flight).scalar_one()
    first.send_signal(signal.SIGKILL)
    first.wait()
    with any_database.write() as session:
        session.execute(update(RemoteRun).values(created_at=after(-AGED_S)))

    second = open_database(any_url)
    begun = time.monotonic()
    worker = RemoteWorker(second, provider, TARGET, times=RemoteTimes(), at_once=IN_FLIGHT)
    worker.begin()
    while worker.looked_at < IN_FLIGHT:
        worker.turn()
    reattached_s = time.monotonic() - begun
    assert worker.in_flight == IN_FLIGHT
    assert len(provider.submits()) == IN_FLIGHT, "nothing was submitted again"

    until, cpu = time.monotonic() + WATCHED_S, cpu_s()
    while time.monotonic() < until:
        worker.turn()
        time.sleep(min(worker.wait_s(), max(0.0, until - time.monotonic())))
    share = (cpu_s() - cpu) / WATCHED_S
    print(f"\ntaken over and looked at once: {reattached_s:.2f} s; then {100 * share:.2f} % of a core")
    second.close()
    Promise(f"s to take {IN_FLIGHT} runs over", MOST_REATTACH_S).hold(reattached_s)
    assert share < MOST_SHARE_OF_A_CORE * min(slowness(), 3.0)


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
