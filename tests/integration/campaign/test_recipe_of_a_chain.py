"""The check of a best that several changes led to: it measures all of them together, and no test did before.

The database, the queue, the sealing, the judge and the findings are the real ones; launches are given.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import func, select

from agent.campaign.learning.learn import learn_test
from agent.campaign.learning.outcome import note_best
from agent.campaign.rerun.reproduce import unfinished_reproduction
from agent.recipe.checking import Checked, Holding, begin_check, check
from agent.recipe.making import recipe_of
from agent.recipe.recipe import Recipe
from db import events
from db.event_kinds import EventKind
from db.models import Experiment, Finding, FindingEvidence, Verdict
from db.session import Database
from db.states import FindingStatus, VerdictOutcome
from experiments.space.configuration import KnobValue
from knowledge.queries.found.fresh_runs import fresh_runs
from knowledge.queries.found.verification import Standing, verification
from tests.integration.campaign.campaigned import Campaigned, campaign, pairs
from tests.integration.campaign.sealed import dispatch, propose_change
from tests.simulated.by_hand import measure_baseline, run_by_hand
from tests.simulated.campaign import registered_here, start

__all__ = ["campaign"]  # the fixture

BASELINE: Mapping[str, KnobValue] = {}
FIRST: Mapping[str, KnobValue] = {"simulated.tpot_ms": 9.9}
SECOND: Mapping[str, KnobValue] = {"simulated.threads": 2}


@pytest.fixture(autouse=True)
def deployable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights are made up here, so that times alone decide; a recipe is made of them all the same."""
    monkeypatch.setattr("agent.recipe.making.latency_only", lambda spec: False)


@dataclass(frozen=True)
class Chained:
    """A campaign whose best came in two steps of a fifth each, E-0002 and E-0003, and its recipe."""

    database: Database
    recipe: Recipe

    def check(self, candidate_ms: float) -> Checked:
        def wait() -> None:
            with self.database.read() as session:
                newest = session.scalars(select(func.max(Experiment.id))).one()
            run_by_hand(self.database, newest, pairs(candidate_ms))

        return check(self.database, self.recipe, wait)

    def findings(self) -> list[FindingStatus]:
        with self.database.read() as session:
            return list(session.scalars(select(Finding.status).order_by(Finding.id)))


def recipe(database: Database, folder: Path) -> Recipe:
    with registered_here(folder), database.read() as session:
        return recipe_of(session, 1, folder / "cache")


@pytest.fixture
def chained(tmp_path: Path) -> Iterator[Chained]:
    database, campaign_id = start(tmp_path, weights="dummy")
    measure_baseline(database, campaign_id)
    for change, on in ((FIRST, BASELINE), (SECOND, FIRST)):
        experiment_id = dispatch(database, campaign_id, propose_change(database, campaign_id, change, on))
        run_by_hand(database, experiment_id, pairs(8.0))
        with database.write() as session:
            assert learn_test(session, experiment_id) == VerdictOutcome.SUPPORTED
            note_best(session, campaign_id)
    yield Chained(database, recipe(database, tmp_path))
    database.close()


def test_a_check_of_a_chain_marks_the_findings_of_all_its_steps_and_is_evidence_for_none(
    chained: Chained,
) -> None:
    assert chained.recipe.rests_on == ("E-0002", "E-0003")
    assert chained.recipe.promise.chained
    failed = chained.check(10.0)
    assert (failed.holding, failed.stale) == (Holding.FAILS, ("F-001", "F-002"))
    assert chained.findings() == [FindingStatus.STALE] * 2
    held = chained.check(6.4)
    assert (held.holding, held.confirmed) == (Holding.HOLDS, ("F-001", "F-002"))
    assert chained.findings() == [FindingStatus.HOLDS] * 2, "no finding was added or stays stale"
    with chained.database.read() as session:
        told = session.scalars(select(FindingEvidence.verdict_id)).all()
        of_checks = session.scalars(select(Verdict.id).where(Verdict.experiment_id > 3)).all()
        arms = session.get_one(Experiment, 4)
        assert (arms.hypothesis_id, arms.reproduces_experiment_id) == (None, 3)
        assert arms.control_configuration_id == session.get_one(Experiment, 2).control_configuration_id
    assert len(of_checks) == 2
    assert set(told).isdisjoint(of_checks)


def test_a_check_is_no_fresh_run_of_the_verdict_that_the_recipe_was_made_of(chained: Chained) -> None:
    with chained.database.write() as session:
        events.append(
            session, EventKind.CAMPAIGN_VERIFYING, "It begins.", campaign_id=1, data={"after_experiment": 3}
        )
        waiting = begin_check(session, chained.recipe)
        assert unfinished_reproduction(session, 3) is None, "a reproduction does not take up a check"
    run_by_hand(chained.database, waiting.experiment_id, pairs(6.4))
    chained.check(6.4)
    with chained.database.read() as session:
        assert fresh_runs(session, 3) == ()
        assert {row.standing for row in verification(session, 1).verdicts} == {Standing.WAITS}


def test_a_recipe_does_not_rest_on_what_a_later_best_took_back(campaign: Campaigned, tmp_path: Path) -> None:
    made = recipe(campaign.database, tmp_path)
    assert (made.experiment, made.rests_on) == ("E-0003", ("E-0003",)), "E-0002 set another time of a token"
