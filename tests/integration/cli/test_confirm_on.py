"""`autoinfer run --confirm-on cloud:L4`: screened on this machine, confirmed on rented ones, in one queue.

The provider keeps its state in files and its machines are processes with the simulated engine; the command,
the workers beside it, the database and the money are the real ones.
"""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from agent.campaign.resources.worker_process import REMOTE_STOP_S
from db.models import Experiment, Hypothesis, HypothesisParent, Job, Move, RemoteRun, Verdict
from db.states import EvidenceRelation, ExperimentKind, HypothesisState, RemoteRunState
from knowledge.queries.found.ties import ties_of_experiments
from tests.integration.cli.rented_place import TARGET, RentedPlace
from tests.integration.worker.processes import events_of
from tests.new_database import new_database
from tests.simulated.rented_cloud import BOUND_USD
from tests.waiting import PATIENCE_S, wait_for

pytestmark = pytest.mark.timeout(600)

SCREENED_HERE = f"--confirm-on {TARGET}"


@pytest.fixture
def screened(tmp_path: Path) -> Iterator[RentedPlace]:
    made = RentedPlace(tmp_path, SCREENED_HERE, executor="here")
    yield made
    made.end()


@pytest.fixture(
    scope="module",
    params=[
        "in one go",
        # in the suite one is killed with all that it started in test_rented_campaign.py
        pytest.param("killed", marks=pytest.mark.bench_only),
    ],
)
def finished(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RentedPlace]:
    """A whole campaign; or one that was killed with all that it started while its first confirmation ran on
    what is rented, and then gone on with."""
    made = RentedPlace(tmp_path_factory.mktemp("screened"), SCREENED_HERE, executor="here")
    try:
        if request.param == "killed":
            made.killed_and_gone_on_with(submits=1)
        else:
            made.in_one_go()
        yield made
    finally:
        made.end()


def test_what_is_supported_here_is_confirmed_there_and_tied(finished: RentedPlace) -> None:
    database = finished.database()
    with database.read() as session:
        (row,) = session.scalars(select(Hypothesis).where(Hypothesis.target != "")).all()
        first = session.get_one(Experiment, row.confirms_experiment_id)
        parents = session.scalars(
            select(HypothesisParent.parent_id).where(HypothesisParent.hypothesis_id == row.id)
        ).all()
        (fresh,) = session.scalars(select(Experiment).where(Experiment.kind == ExperimentKind.PROMOTE))
        tie = ties_of_experiments(session, [first.id])[0]
    database.close()
    assert (row.target, row.proposer, row.state) == (TARGET, "promotion", HypothesisState.SUPPORTED)
    assert list(parents) == [first.hypothesis_id]
    assert (fresh.hypothesis_id, fresh.reproduces_experiment_id, fresh.target) == (row.id, first.id, TARGET)
    assert tie.relation is EvidenceRelation.REPLICATES
    assert "replicates" in str(row.state_reason)


def test_it_stood_in_the_queue_with_its_price_its_wait_and_what_is_built_there(finished: RentedPlace) -> None:
    database = finished.database()
    with database.read() as session:
        (row,) = session.scalars(select(Hypothesis).where(Hypothesis.target != "")).all()
        moves = list(session.scalars(select(Move).where(Move.hypothesis_id == row.id).order_by(Move.id)))
    database.close()
    score = row.score or {}
    assert score["target"] == TARGET
    assert score["usd"] > 0
    assert score["wait_s"] > 0
    assert score["weighed_s"] > score["cost_s"]
    assert f"confirms it on {TARGET}" in score["reason"]
    assert "nothing to build there" in score["reason"]
    assert moves[0].from_rank is None
    assert "entered the queue" in moves[0].reason


def test_it_is_paid_once_whether_it_was_killed_or_not(finished: RentedPlace) -> None:
    database = finished.database()
    with database.read() as session:
        runs = list(session.scalars(select(RemoteRun)))
        jobs = list(session.scalars(select(Job).where(Job.device_class == TARGET)))
        verdicts = list(session.scalars(select(Verdict.experiment_id)))
    database.close()
    assert len(jobs) == 1
    assert [run.state for run in runs] == [RemoteRunState.ENDED]
    assert finished.cloud.submits() == [run.key for run in runs]
    assert len(verdicts) == len(set(verdicts))
    assert finished.cloud.reconcile() == []


def test_a_verdict_of_another_target_makes_no_step_to_the_best(finished: RentedPlace) -> None:
    best = finished.outcome["best"]
    assert isinstance(best, dict)
    database = finished.database()
    with database.read() as session:
        (fresh,) = session.scalars(select(Experiment).where(Experiment.kind == ExperimentKind.PROMOTE))
    database.close()
    assert best["configuration"]["simulated.tpot_ms"] == 7.0
    assert best["experiment"] != f"E-{fresh.id:04d}"
    assert finished.outcome["confirmed"] == {TARGET: {"supported": 1}}


@pytest.mark.bench_only  # in the suite a price waits in test_rented_campaign.py
def test_a_price_above_the_threshold_waits_and_holds_up_nothing_here(screened: RentedPlace) -> None:
    line = f"{screened.line} --budget-usd 5 --approve-above-usd 0.10"
    out, err = screened.run(line).communicate(timeout=180)
    outcome = json.loads(out.splitlines()[-1])
    database = screened.database()
    (held,) = events_of(database, "job.held")
    with database.read() as session:
        job_id = session.scalars(select(Job.id).where(Job.device_class == TARGET)).one()
        waiting = set(session.scalars(select(Hypothesis.state).where(Hypothesis.target == "")))
    assert f"Approve with: autoinfer approve J-{job_id}" in outcome["stopped_because"], err
    assert f"you are asked. Approve it with: autoinfer approve J-{job_id}" in held
    assert screened.cloud.submits() == []
    assert HypothesisState.TESTING not in waiting, "what is tested here went on meanwhile"
    queue = screened.autoinfer("queue").out
    assert TARGET in queue
    assert screened.autoinfer(f"approve J-{job_id}").code == 0
    out, err = screened.run("run --resume C-1").communicate(timeout=180)
    assert len(screened.cloud.submits()) == 1, err
    assert json.loads(out.splitlines()[-1])["confirmed"] == {TARGET: {"supported": 1}}
    database.close()


def test_no_budget_and_one_without_room_are_refused_before_anything_begins(screened: RentedPlace) -> None:
    refused = screened.autoinfer(screened.line, PYTHONPATH=screened.path)
    assert refused.code == 2
    assert f"Nothing could be confirmed on {TARGET}: No budget in dollars covers" in refused.err
    small = screened.autoinfer(f"{screened.line} --budget-usd 0.5", PYTHONPATH=screened.path)
    assert small.code == 2
    assert "It costs $0.600 at most" in small.err
    assert screened.cloud.submits() == []


@pytest.mark.bench_only  # in the suite budgets have no room for the next job in test_rented_campaign.py
def test_a_budget_without_room_sends_nothing_and_says_what_was_left(screened: RentedPlace) -> None:
    screened.data.mkdir(exist_ok=True)
    new_database(screened.data).close()
    running = screened.run(f"{screened.line} --budget-usd {BOUND_USD:.2f}")
    database = screened.database()
    wait_for(lambda: events_of(database, "campaign.started") != [])
    database.close()
    assert screened.autoinfer("budget set --target cloud:L4 0.10").code == 0
    out, err = running.communicate(timeout=180)
    outcome = json.loads(out.splitlines()[-1])
    assert f"not confirmed on {TARGET}: H-" in outcome["stopped_because"], err
    assert "the budget of cloud:L4 has $0.100 left" in outcome["stopped_because"]
    assert screened.cloud.submits() == []


@pytest.mark.bench_only  # in the suite a campaign on one rented target is ended, in test_rented_campaign.py
def test_an_interrupt_leaves_nothing_paid_running(screened: RentedPlace) -> None:
    running = screened.run(f"{screened.line} --budget-usd 5")
    wait_for(lambda: len(screened.cloud.reconcile()) == 1, 120)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=REMOTE_STOP_S + PATIENCE_S)  # killed by then, it would leave something paid
    assert screened.cloud.reconcile() == []


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("run {} --confirm-on cpu", "is no other target than its own"),
        ("run {} --confirm-on cloud:L4,cloud:L4 --budget-usd 5", "stands twice"),
        ("run {} --confirm-on moon --budget-usd 5", "There is no target 'moon'"),
        ("run {} --confirm-on nobody:H100 --budget-usd 5", "There is no executor 'nobody'."),
        ("run {} --confirm-on cloud:L4 --usd-per-hour 0 --budget-usd 5", "usd"),
        ("run --resume C-1 --confirm-on cloud:L4", "has no meaning beside --resume"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(screened: RentedPlace, line: str, says: str) -> None:
    refused = screened.autoinfer(line.format(screened.file), PYTHONPATH=screened.path)
    assert refused.code == 2, refused.err
    assert says in refused.err
