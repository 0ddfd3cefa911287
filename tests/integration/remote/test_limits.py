"""A run that its limit ends is no result: its job goes back, and the next attempt may take longer."""

from collections.abc import Callable
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from db import money
from db.clock import now
from db.models import Experiment, Job, RemoteRun
from db.session import Database
from db.states import JobState
from experiments.executors.port import Quote, RunState
from experiments.job.spec import AnyJob
from experiments.remote.limiting import GROWTH, LEAST_LIMIT_S
from experiments.remote.settings import RemoteTimes
from experiments.remote.worker import RemoteWorker
from tests.integration.remote.conftest import enqueue, give_budget
from tests.integration.worker.processes import events_of
from tests.simulated.queueing import start_campaign
from tests.simulated.remote_executor import RATE_USD_PER_S, FileProvider
from tests.simulated.remote_worker_main import TARGET
from tests.waiting import wait_for

TIMES = RemoteTimes(look_s=0.0, soonest_s=0.0, latest_s=0.0)
PLANNED_S = 300.0


class Limiting(FileProvider):
    """Bounds its quotes by the limit, and keeps which one each run was submitted with."""

    def __init__(self, root: Path, *, target: str = TARGET) -> None:
        super().__init__(root, target=target)
        self.limits: dict[str, float | None] = {}

    def quote(self, spec: AnyJob, limit_s: float | None = None) -> Quote:
        bound_s = 10_000.0 if limit_s is None else limit_s
        return Quote(100.0, bound_s, 100.0 * RATE_USD_PER_S, bound_s * RATE_USD_PER_S, "a price")

    def submit(self, key: str, spec: AnyJob, limit_s: float | None = None) -> str:
        self.limits[key] = limit_s
        return super().submit(key, spec, limit_s)


def planned(session: Session, spec: AnyJob, target: str) -> float | None:
    return PLANNED_S


def worker(database: Database, provider: Limiting, **more: object) -> RemoteWorker:
    made = RemoteWorker(database, provider, TARGET, times=TIMES, **more)  # type: ignore[arg-type]
    made.begin()
    return made


def turn_until(works: RemoteWorker, done: Callable[[], bool]) -> None:
    def turned() -> bool:
        works.turn()
        return done()

    wait_for(turned)


def test_the_attempt_after_one_that_its_limit_ended_is_longer_and_dearer(
    database: Database, provider: FileProvider
):
    limiting = Limiting(provider.cloud.parent / "jobs")
    give_budget(database, 20.0)
    _, job_id = enqueue(database, start_campaign(database))
    works = worker(database, limiting, planned_s=planned)
    works.turn()
    [first] = limiting.reconcile()
    limiting.end(first, RunState.TIMED_OUT, wall_s=LEAST_LIMIT_S)
    turn_until(works, lambda: len(limiting.limits) == 2)
    assert list(limiting.limits.values()) == [LEAST_LIMIT_S, GROWTH * LEAST_LIMIT_S]
    with database.read() as session:
        runs = session.scalars(select(RemoteRun).order_by(RemoteRun.id)).all()
        assert session.get_one(Job, job_id).state is JobState.RUNNING
    assert [run.outcome for run in runs] == ["timed_out", None]
    assert runs[1].reserved_microusd == money.microusd(GROWTH * LEAST_LIMIT_S * RATE_USD_PER_S)
    assert "The next attempt may take longer, and is quoted so." in events_of(database, "job.requeued")[0]


def test_the_longer_attempt_waits_where_the_budget_has_no_room_for_it(
    database: Database, provider: FileProvider
):
    limiting = Limiting(provider.cloud.parent / "jobs")
    give_budget(database, 1.5 * LEAST_LIMIT_S * RATE_USD_PER_S)
    enqueue(database, start_campaign(database))
    works = worker(database, limiting, planned_s=planned)
    works.turn()
    limiting.end(limiting.reconcile()[0], RunState.TIMED_OUT, wall_s=LEAST_LIMIT_S)
    turn_until(works, lambda: bool(events_of(database, "job.held")))
    assert len(limiting.limits) == 1
    assert "has $0.900 left of $2.70" in events_of(database, "job.held")[0]


def test_a_worker_that_takes_over_submits_with_the_limit_that_was_reserved(
    database: Database, provider: FileProvider
):
    limiting = Limiting(provider.cloud.parent / "jobs")
    give_budget(database, 20.0)
    enqueue(database, start_campaign(database))
    killed = worker(database, limiting, planned_s=planned)
    (limiting.cloud / "cut").touch()
    killed.turn()
    (limiting.cloud / "cut").unlink()
    with database.write() as session:
        session.execute(Job.__table__.update().values(owner="gone", lease_expires_at=now()))
    limiting.limits.clear()
    worker(database, limiting).turn()
    assert list(limiting.limits.values()) == [LEAST_LIMIT_S], "whatever it would plan itself"


def test_a_run_that_had_no_limit_but_its_stages_is_not_tried_again(
    database: Database, provider: FileProvider
):
    limiting = Limiting(provider.cloud.parent / "jobs")
    give_budget(database, 20.0)
    _, job_id = enqueue(database, start_campaign(database))
    works = worker(database, limiting)
    works.turn()
    limiting.end(limiting.reconcile()[0], RunState.TIMED_OUT)
    turn_until(works, lambda: works.in_flight == 0)
    with database.read() as session:
        assert session.get_one(Job, job_id).state is JobState.FAILED
        assert session.scalars(select(Experiment.failure_kind)).one() == "timed_out"
