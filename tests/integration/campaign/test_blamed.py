"""What the engine's words put a failure down to goes to its verdict, to what is learnt, and to others."""

from pathlib import Path

import pytest
from sqlalchemy import select

from agent.campaign.known.reading_facts import read_facts
from db.models import Experiment, Verdict
from experiments.engines.port import Blames
from experiments.job.blame import BLAMES
from experiments.job.result import Failure
from experiments.measurement.judging import Outcome
from tests.integration.campaign.sealed import Dispatched, dispatched
from tests.simulated.by_hand import measure_baseline, run_by_hand
from tests.simulated.campaign import start

__all__ = ["dispatched"]  # the fixture

BEHIND: Blames = {"simulated.tpot_ms": "7.0"}


def fail(it: Dispatched, blames: Blames) -> None:
    """Its candidate can't run, and that is learnt."""
    run_by_hand(it.database, it.experiment_id, lambda _: (), Failure("crashed", "It ended.", blames))
    assert it.learn() is Outcome.INFEASIBLE


@pytest.mark.parametrize("blames", [BEHIND, {"simulated.tpot_ms": None}, {}])
def test_a_trial_tells_what_its_failure_was_put_down_to(dispatched: Dispatched, blames: Blames) -> None:
    fail(dispatched, blames)
    with dispatched.database.read() as session:
        (trial,) = read_facts(session, dispatched.campaign_id).trials
        stored = session.scalars(select(Verdict)).one().judge
        ended = session.get_one(Experiment, dispatched.experiment_id).progress
    assert trial.blames == blames
    assert stored.get(BLAMES, {}) == blames
    assert ended == {"stop_reason": None, **({BLAMES: blames} if blames else {})}


def test_a_later_campaign_begins_with_it(dispatched: Dispatched, tmp_path: Path) -> None:
    fail(dispatched, BEHIND)
    _, later = start(tmp_path, dispatched.database)
    measure_baseline(dispatched.database, later)
    with dispatched.database.read() as session:
        (carried,) = read_facts(session, later).carried
    assert carried.trial.blames == BEHIND
