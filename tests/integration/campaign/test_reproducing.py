"""Reproducing an experiment: what interrupts it leaves nothing that a worker would spend minutes on."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import func, select

from agent.campaign.learning.learn import learn_test
from agent.campaign.rerun.reproduce import Reproduction, conclude, enqueue_reproduction, reproduce
from db import queue
from db.models import Experiment, Job, Verdict
from db.session import Database
from db.states import ExperimentKind, ExperimentState, JobState
from experiments.job.result import Failure
from tests.integration.campaign.sealed import dispatch, one_pair, propose
from tests.simulated.by_hand import LEASE_S, measure_baseline, run_by_hand
from tests.simulated.campaign import start

ORIGINAL = 2
"""The experiment after the baseline's."""


@dataclass(frozen=True)
class Judged:
    """A campaign with a judged test, and what became of its reproductions."""

    database: Database

    def fresh(self) -> list[tuple[ExperimentState, JobState]]:
        with self.database.read() as session:
            rows = session.execute(
                select(Experiment.state, Job.state)
                .join(Job, Job.experiment_id == Experiment.id)
                .where(Experiment.kind == ExperimentKind.REPRODUCE)
                .order_by(Experiment.id)
            )
            return [(row[0], row[1]) for row in rows]

    def run_fresh(self, failure: Failure | None = None) -> None:
        """A worker takes the newest reproduction and records what it measured."""
        with self.database.read() as session:
            newest = session.scalars(select(func.max(Experiment.id))).one()
        run_by_hand(self.database, newest, one_pair, failure)

    def reproduce(self) -> Reproduction:
        told = reproduce(self.database, ORIGINAL, self.run_fresh)
        assert isinstance(told, Reproduction)
        return told


@pytest.fixture
def judged(tmp_path: Path) -> Iterator[Judged]:
    database, campaign_id = start(tmp_path)
    measure_baseline(database, campaign_id)
    assert dispatch(database, campaign_id, propose(database, campaign_id, 7.0)) == ORIGINAL
    run_by_hand(database, ORIGINAL, one_pair)
    with database.write() as session:
        learn_test(session, ORIGINAL)
    yield Judged(database)
    database.close()


def interrupt() -> None:
    raise KeyboardInterrupt


def test_an_interrupted_reproduction_leaves_no_job_behind(judged: Judged) -> None:
    with pytest.raises(KeyboardInterrupt):
        reproduce(judged.database, ORIGINAL, interrupt)
    assert judged.fresh() == [(ExperimentState.CANCELLED, JobState.CANCELLED)]
    with judged.database.write() as session:
        assert queue.claim(session, "the next worker", "here/cpu", ("cpu",), LEASE_S) is None


def test_what_its_own_worker_gives_back_as_it_ends_is_cancelled_too(judged: Judged) -> None:
    taken = []

    def run_and_be_interrupted() -> None:
        with judged.database.write() as session:
            taken.append(queue.claim(session, "its worker", "here/cpu", ("cpu",), LEASE_S))
        raise KeyboardInterrupt

    def stop() -> None:
        with judged.database.write() as session:
            queue.release(session, taken[0])

    with pytest.raises(KeyboardInterrupt):
        reproduce(judged.database, ORIGINAL, run_and_be_interrupted, stop)
    assert judged.fresh() == [(ExperimentState.CANCELLED, JobState.CANCELLED)]


@pytest.mark.parametrize("had_run", [False, True])
def test_what_a_killed_process_left_is_gone_on_with(judged: Judged, had_run: bool) -> None:
    with judged.database.write() as session:
        enqueue_reproduction(session, ORIGINAL)
    if had_run:
        judged.run_fresh()
    assert judged.reproduce().agrees
    assert len(judged.fresh()) == 1


def test_what_was_concluded_is_run_afresh_when_asked_again(judged: Judged) -> None:
    assert judged.reproduce().agrees
    assert judged.reproduce().agrees
    assert len(judged.fresh()) == 2


def test_a_reproduction_that_broke_says_nothing_and_can_be_started_again(judged: Judged) -> None:
    with judged.database.write() as session:
        broken = enqueue_reproduction(session, ORIGINAL)
    judged.run_fresh(Failure("error", "No space left on device"))
    with judged.database.write() as session:
        told = conclude(session, broken)
    assert told == "E-0003 broke, which says nothing about the claim: No space left on device"
    with judged.database.read() as session:
        assert session.scalars(select(Verdict.experiment_id)).all() == [ORIGINAL]
    assert judged.reproduce().agrees
