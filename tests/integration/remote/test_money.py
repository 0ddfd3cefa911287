"""Nothing is submitted without a price within its budgets, however many workers want to."""

import threading
from pathlib import Path

import pytest
from sqlalchemy import select

from configs.errors import UsageError
from db import money
from db.models import Experiment, Job, JobQuote, RemoteRun
from db.session import Database, open_database
from db.states import BudgetScope, JobState
from experiments.disk import TO_FREE_SPACE
from experiments.executors.port import RunState
from experiments.remote.settings import RemoteTimes
from experiments.remote.worker import RemoteWorker
from experiments.worker.worker import run_worker
from tests.integration.remote.conftest import enqueue, give_budget
from tests.integration.worker.processes import events_of
from tests.simulated.queueing import enqueue_job, start_campaign
from tests.simulated.remote_executor import BOUND_USD, FileProvider
from tests.simulated.remote_worker_main import TARGET
from tests.simulated.specs import a_test_job
from tests.waiting import wait_for

TIMES = RemoteTimes(look_s=0.02, soonest_s=0.02, latest_s=0.05)


def standing(database: Database, scope: BudgetScope = BudgetScope.TARGET) -> money.BudgetStanding:
    with database.read() as session:
        return next(each for each in money.budgets(session) if each.scope is scope)


def work(database: Database, provider: FileProvider, **more: object) -> RemoteWorker:
    return RemoteWorker(database, provider, TARGET, times=TIMES, **more)  # type: ignore[arg-type]


class Working:
    """A worker in a thread, which ends with the block and leaves its runs to others."""

    def __init__(self, database: Database, provider: FileProvider) -> None:
        self._stop = threading.Event()
        worker = work(database, provider, stop=self._stop, leave_running=True)
        self._thread = threading.Thread(target=worker.run)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


@pytest.mark.parametrize(
    ("workers", "room"),
    [(8, 3), pytest.param(20, 7, marks=pytest.mark.bench_only)],
    ids=lambda each: str(each),
)
def test_workers_at_once_never_submit_more_jobs_than_the_budget_is_for(
    any_url: str, any_database: Database, provider: FileProvider, workers: int, room: int
):
    """There is a job for each of them."""
    campaign = start_campaign(any_database)
    give_budget(any_database, room * BOUND_USD)
    for number in range(workers):
        enqueue(any_database, campaign, seed=number)
    barrier = threading.Barrier(workers)
    faults: list[BaseException] = []

    def one() -> None:
        database = open_database(any_url)
        try:
            worker = work(database, provider, leave_running=True)
            worker.begin()
            barrier.wait()
            for _ in range(3):
                worker.turn()
        except BaseException as error:
            faults.append(error)
        finally:
            database.close()

    threads = [threading.Thread(target=one) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert len(provider.submits()) == len(set(provider.submits())) == room
    assert standing(any_database).left == 0
    with any_database.read() as session:
        states = list(session.scalars(select(Job.state)))
    assert states.count(JobState.RUNNING) == room
    assert states.count(JobState.QUEUED) == workers - room


def test_what_a_run_cost_sets_the_rest_of_its_reservation_free(
    any_database: Database, provider: FileProvider
):
    """Each is quoted one dollar and costs twenty cents: a budget for two at once pays for six."""
    campaign = start_campaign(any_database)
    give_budget(any_database, 2.0)
    for number in range(8):
        enqueue(any_database, campaign, seed=number)
    with Working(any_database, provider):
        for done in range(1, 6):
            wait_for(lambda: len(provider.reconcile()) > 0)
            provider.end(provider.reconcile()[0])
            wait_for(lambda done=done: len(events_of(any_database, "job.settled")) == done)
        wait_for(lambda: bool(events_of(any_database, "job.held")))
    budget = standing(any_database)
    assert budget.spent == 5 * 200_000
    assert budget.left >= 0
    assert budget.spent + budget.reserved <= budget.limit


def test_a_job_without_a_budget_is_held_with_what_to_do(database: Database, provider: FileProvider):
    enqueue(database, start_campaign(database))
    assert work(database, provider).run(once=True) == 0
    assert provider.submits() == []
    [told] = events_of(database, "job.held")
    assert "No budget in dollars covers files:T" in told
    assert "autoinfer budget set --target files:T USD" in told
    work(database, provider).run(once=True)
    assert len(events_of(database, "job.held")) == 1, "it is told once"


@pytest.mark.parametrize("scope", BudgetScope)
def test_every_budget_that_covers_a_job_must_have_room(
    database: Database, provider: FileProvider, scope: BudgetScope
):
    campaign = start_campaign(database)
    enqueue(database, campaign)
    name = {BudgetScope.CAMPAIGN: str(campaign), BudgetScope.TARGET: TARGET, BudgetScope.DAY: ""}[scope]
    with database.write() as session:
        for each, its in (
            (BudgetScope.DAY, ""),
            (BudgetScope.TARGET, TARGET),
            (BudgetScope.CAMPAIGN, str(campaign)),
        ):
            money.set_budget(session, each, its, money.microusd(9), None)
        money.set_budget(session, scope, name, money.microusd(0.99), None)
    work(database, provider).run(once=True)
    assert provider.submits() == []
    assert "$1.00 at most" in events_of(database, "job.held")[0]
    assert "$0.990 left of $0.990" in events_of(database, "job.held")[0]


def test_a_dear_job_waits_for_approval_and_goes_on_once_it_has_it(database: Database, provider: FileProvider):
    _, job_id = enqueue(database, start_campaign(database))
    give_budget(database, 5.0, approve_above=0.5)
    work(database, provider).run(once=True)
    assert provider.submits() == []
    assert "autoinfer approve J-1" in events_of(database, "job.held")[0]
    with database.write() as session:
        quote = session.get_one(JobQuote, job_id)
        assert (quote.needs_approval, quote.bound_microusd) == (True, 1_000_000)
        quote.approved_microusd = 1_000_000
    with Working(database, provider):
        wait_for(lambda: len(provider.submits()) == 1)


def test_an_expectation_rests_on_what_similar_jobs_took(database: Database, provider: FileProvider):
    campaign = start_campaign(database)
    give_budget(database, 50.0)
    for number in range(4):
        enqueue(database, campaign, seed=number)
        with Working(database, provider):
            wait_for(lambda: len(provider.reconcile()) == 1)
            provider.end(provider.reconcile()[0], wall_s=300.0)
            wait_for(lambda number=number: len(events_of(database, "job.settled")) == number + 1)
    with database.read() as session:
        rows = session.scalars(select(RemoteRun).order_by(RemoteRun.id)).all()
    assert [row.expected_microusd for row in rows] == [100_000, 100_000, 100_000, 300_000]
    assert "median of the last 3 such jobs" in rows[-1].basis
    assert [row.reserved_microusd for row in rows] == [1_000_000] * 4


def test_a_cut_network_submits_nothing_twice_and_loses_nothing(database: Database, provider: FileProvider):
    give_budget(database, 5.0)
    enqueue(database, start_campaign(database))
    cut = provider.cloud / "cut"
    with Working(database, provider):
        wait_for(lambda: len(provider.submits()) == 1)
        cut.touch()
        [folder] = [path for path in provider.cloud.iterdir() if path.is_dir()]
        provider.end(folder.name)
        cut.unlink()
        wait_for(lambda: bool(events_of(database, "job.settled")))
    assert len(provider.submits()) == 1


def test_a_run_whose_cost_nobody_tells_counts_as_quoted(database: Database, provider: FileProvider):
    give_budget(database, 5.0)
    enqueue(database, start_campaign(database))

    class Silent(FileProvider):
        def cost(self, ref: str) -> object:  # type: ignore[override]
            raise UsageError("No bill yet.")

    silent = Silent(provider.cloud.parent / "jobs", target=TARGET)
    with Working(database, silent):
        wait_for(lambda: len(provider.reconcile()) == 1)
        provider.end(provider.reconcile()[0])
        wait_for(lambda: bool(events_of(database, "job.settled")))
    assert standing(database).spent == 1_000_000
    assert "is not known" in events_of(database, "job.settled")[0]


def test_a_full_disk_of_a_rented_machine_is_paid_for_once_and_told_as_whose_it_is(
    database: Database, provider: FileProvider
):
    give_budget(database, 5.0)
    experiment_id, _ = enqueue(database, start_campaign(database))
    with Working(database, provider):
        wait_for(lambda: len(provider.reconcile()) == 1)
        told = f"No space is left for artifacts in /work/artifacts. {TO_FREE_SPACE}"
        provider.end(provider.reconcile()[0], RunState.FAILED, failure=told, kind="disk_full")
        wait_for(lambda: bool(events_of(database, "job.settled")))
    assert len(provider.submits()) == 1
    with database.read() as session:
        experiment = session.get_one(Experiment, experiment_id)
    assert experiment.failure_kind == "disk_full"
    assert experiment.failure == (
        f"A disk is full on a rented machine of {TARGET}: No space is left for artifacts in /work/artifacts. "
        "Its disk comes with the machine: take a target with a larger one, or a smaller model."
    )


def test_a_cancelled_job_s_run_is_ended_and_paid_for_as_far_as_it_came(
    database: Database, provider: FileProvider, tmp_path: Path
):
    from experiments.worker.cancelling import cancel

    give_budget(database, 5.0)
    _, job_id = enqueue(database, start_campaign(database))
    with Working(database, provider):
        wait_for(lambda: len(provider.reconcile()) == 1)
        with database.write() as session:
            assert cancel(session, job_id, "Not wanted.") is JobState.RUNNING
        wait_for(lambda: bool(events_of(database, "job.cancelled")))
    assert provider.reconcile() == []
    assert provider.poll(f"fc-{provider.submits()[0]}").state is RunState.CANCELLED
    assert standing(database).reserved == 0


def test_a_worker_for_a_device_submits_nothing_that_costs_money(database: Database, provider: FileProvider):
    """It knows no budget: a job that is run by a paid executor there fails with what to do."""
    enqueue_job(database, start_campaign(database), a_test_job)
    run_worker(database, provider, "cpu", once=True)
    assert provider.submits() == []
    assert "autoinfer worker --target TARGET" in events_of(database, "job.failed")[0]


@pytest.mark.parametrize(
    ("changed", "state", "count"),
    [({"version": 2}, JobState.QUEUED, 0), ({"engine": 7}, JobState.FAILED, 1)],
    ids=["another version is left in the queue", "a malformed spec fails"],
)
def test_what_this_worker_can_t_read_is_never_paid_for(
    database: Database, provider: FileProvider, changed: dict[str, object], state: JobState, count: int
):
    give_budget(database, 5.0)
    _, job_id = enqueue(database, start_campaign(database))
    with database.write() as session:
        job = session.get_one(Job, job_id)
        job.spec = {**job.spec, **changed}
    work(database, provider).run(once=True)
    with database.read() as session:
        assert session.get_one(Job, job_id).state is state
    assert len(events_of(database, "job.failed")) == count
    assert provider.submits() == []
    assert standing(database).left == 5_000_000
