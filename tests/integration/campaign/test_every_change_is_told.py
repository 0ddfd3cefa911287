"""Whatever changes the state of something writes an event that names it, in the same transaction."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from agent.campaign.known.reading_facts import read_facts
from agent.campaign.learning.learn import learn_test
from agent.campaign.learning.learn_baseline import learn_baseline
from agent.campaign.queue.dispatch import dispatch_baseline
from agent.campaign.rerun.verify import Limits, Runner, verify
from agent.ground.legal import legal_here
from db import queue
from db.models import Experiment, Hypothesis, Job
from db.session import Database
from db.states import ExperimentState, HypothesisState
from experiments.job.result import Failure
from experiments.worker.cancelling import cancel
from experiments.worker.reaping import reap
from knowledge.acts import steering
from tests.integration.campaign.campaigned import pairs
from tests.integration.campaign.sealed import dispatch, propose
from tests.integration.campaign.test_promoting import measured as measure_there
from tests.simulated.by_hand import measure_baseline, run_by_hand
from tests.simulated.campaign import SMALL_SPACE, drive, start
from tests.simulated.watched import Untold, every_change_is_told

MOST_ATTEMPTS = 10
"""More than a job has."""


@pytest.fixture
def told() -> Iterator[list[str]]:
    by_hand = {("job", "queued", "running")}  # a worker's claim tells it, and these tests claim themselves
    with every_change_is_told(frozenset(by_hand)) as seen:
        yield seen


def measured(folder: Path) -> tuple[Database, int]:
    database, campaign_id = start(folder, weights="dummy")
    measure_baseline(database, campaign_id)
    return database, campaign_id


def supported(folder: Path) -> tuple[Database, int]:
    """A campaign whose only hypothesis is supported."""
    database, campaign_id = measured(folder)
    assert dispatch(database, campaign_id, propose(database, campaign_id, 7.0)) == 2
    run_by_hand(database, 2, pairs(7.0))
    with database.write() as session:
        learn_test(session, 2)
    return database, campaign_id


def test_a_change_that_nobody_tells_is_found(tmp_path: Path, told: list[str]) -> None:
    database, campaign_id = measured(tmp_path)
    hypothesis_id = propose(database, campaign_id, 7.0)
    with pytest.raises(Untold, match="H-001 went from queued to refuted"), database.write() as session:
        session.get_one(Hypothesis, hypothesis_id).state = HypothesisState.REFUTED
    with database.read() as session:
        assert session.get_one(Hypothesis, hypothesis_id).state is HypothesisState.QUEUED
    database.close()


def test_from_a_proposal_to_a_finding_and_a_fresh_run(tmp_path: Path, told: list[str]) -> None:
    database, campaign_id = supported(tmp_path)
    verify(
        database,
        campaign_id,
        Runner(lambda device: run_by_hand(database, 3, pairs(7.0))),
        Limits(),
    )
    for change in (
        "campaign running: campaign.started",
        "hypothesis queued: hypothesis.proposed",
        "hypothesis testing: hypothesis.preregistered",
        "hypothesis supported: experiment.judged",
        "finding holds: finding.added",
    ):
        assert change in told
    assert [each for each in told if each.startswith("experiment done")] != []
    database.close()


@pytest.mark.parametrize("kind", ["error", "device_lost", "unsupported"])
def test_a_test_that_failed(tmp_path: Path, told: list[str], kind: str) -> None:
    database, campaign_id = measured(tmp_path)
    dispatch(database, campaign_id, propose(database, campaign_id, 7.0))
    run_by_hand(database, 2, lambda spec: [], Failure(kind, "It broke."))
    with database.write() as session:
        learn_test(session, 2)
    assert any(each.startswith("hypothesis") for each in told[-3:])
    database.close()


def test_a_test_that_was_cancelled_waits_again(tmp_path: Path, told: list[str]) -> None:
    database, campaign_id = measured(tmp_path)
    dispatch(database, campaign_id, propose(database, campaign_id, 7.0))
    with database.write() as session:
        cancel(session, session.scalars(select(Job.id).where(Job.experiment_id == 2)).one(), "Enough.")
    with database.write() as session:
        assert learn_test(session, 2) is None
    assert {"experiment cancelled: job.cancelled", "job cancelled: job.cancelled"} <= set(told)
    assert told[-1] == "hypothesis queued: hypothesis.requeued"
    database.close()


def test_workers_that_are_lost_and_a_baseline_that_finds_nothing(tmp_path: Path, told: list[str]) -> None:
    database, campaign_id = start(tmp_path)
    with database.write() as session:
        facts = read_facts(session, campaign_id)
        space = legal_here(facts.spec, facts.checkpoint, facts.cores).space
        experiment_id = dispatch_baseline(session, facts, space)
    for _ in range(MOST_ATTEMPTS):
        with database.write() as session:
            if queue.claim(session, "a worker", "here/cpu", ("cpu",), -1.0) is None:
                break
        with database.write() as session:
            reap(session)
    with database.write() as session:
        learn_baseline(session, experiment_id)
    with database.read() as session:
        assert session.get_one(Experiment, experiment_id).state is ExperimentState.FAILED
    database.close()


def test_what_the_user_steers(tmp_path: Path, told: list[str]) -> None:
    database, campaign_id = supported(tmp_path)
    hypothesis_id = propose(database, campaign_id, 9.9)
    for act in (
        lambda session: steering.pause_campaign(session, campaign_id),
        lambda session: steering.resume_campaign(session, campaign_id),
        lambda session: steering.withdraw(session, hypothesis_id, "enough"),
        lambda session: steering.stop_campaign(session, campaign_id),
    ):
        with database.write() as session:
            act(session)
    database.close()


def test_a_worker_from_its_claim_to_the_end_of_the_job(tmp_path: Path, told: list[str]) -> None:
    measure_there(tmp_path).database.close()
    assert "experiment running: job.claimed" in told


def test_a_whole_campaign_in_its_own_process(tmp_path: Path, told: list[str]) -> None:
    database, campaign_id = start(tmp_path, space_text=SMALL_SPACE)
    drive(database, tmp_path, campaign_id)
    assert "campaign stopped: campaign.stopped" in told
    assert len([each for each in told if each.startswith("hypothesis testing")]) >= 2
    database.close()
