"""The plan of a recipe's check: as short as shows the gain, within its time and the campaign's plan."""

import pytest
from sqlalchemy import delete, select, update

from agent.campaign.known.reading_facts import read_facts
from agent.recipe.planning import ENOUGH, LEAST_PAIRS, short_plan
from db.models import (
    Campaign,
    Experiment,
    NoiseLaunch,
    StageRun,
    Verdict,
)
from experiments.measurement.evidence import Stage
from experiments.measurement.plan import StoppingPlan
from tests.integration.campaign.deployed import Deployed, deployed, first
from tests.integration.campaign.test_promoting import ORIGINAL

__all__ = ["deployed", "first"]


def test_the_plan_of_a_check_is_as_short_as_shows_the_gain_and_says_how_sure_it_is(
    deployed: Deployed,
) -> None:
    with deployed.database.write() as session:
        original = session.get_one(Experiment, ORIGINAL)
        facts = read_facts(session, 1)
        whole = StoppingPlan.model_validate(original.plan)
        short = short_plan(session, facts, original, deployed.recipe.promise)
        assert short.pairs == LEAST_PAIRS
        assert short.plan.validation_pairs == 1
        assert short.plan.full_blocks <= whole.full_blocks
        assert short.most_pairs == whole.full_pairs + whole.validation_pairs, "they are only run if need be"
        assert short.power is not None
        assert short.power > ENOUGH
        assert "a gain that is wholly there is found again with a chance of more than 99 %" in short.words
        verdict = session.scalars(select(Verdict).where(Verdict.experiment_id == ORIGINAL)).one()
        details = {"metric": "tpot_ms", "pair_sd_log": 0.2, "degrees_of_freedom": 4}
        verdict.judge = {**verdict.judge, "details": details}
        rough = short_plan(session, facts, original, deployed.recipe.promise)
        assert rough.pairs > short.pairs
        assert rough.power is not None
        assert rough.power < short.power


def test_the_plan_of_a_check_is_cut_to_the_time_by_what_the_first_test_took(deployed: Deployed) -> None:
    with deployed.database.write() as session:
        original = session.get_one(Experiment, ORIGINAL)
        verdict = session.scalars(select(Verdict).where(Verdict.experiment_id == ORIGINAL)).one()
        whole = StoppingPlan.model_validate(original.plan)
        pairs, facts = verdict.launches // 2, read_facts(session, 1)
        session.execute(update(StageRun).where(StageRun.experiment_id == ORIGINAL).values(wall_s=0.0))
        quick = select(StageRun).where(
            StageRun.experiment_id == ORIGINAL, StageRun.stage == Stage.QUICK.value
        )
        for pair_s, most in ((1.0, whole.full_pairs + whole.validation_pairs), (90.0, 3), (1000.0, 2)):
            session.scalars(quick).one().wall_s = pair_s * pairs
            original.wall_s = pair_s * pairs + 20.0
            session.flush()
            short = short_plan(session, facts, original, deployed.recipe.promise)
            assert short.most_pairs == most
            assert ("which is longer than it has" in short.words) == (pair_s == 1000.0)
            assert short.most_s == pytest.approx(20.0 + pair_s * most)
            assert short.expected_s == pytest.approx(20.0 + pair_s * short.pairs)
            assert short.plan.validation_pairs >= 1
        twice = short_plan(session, facts, original, deployed.recipe.promise, within_s=3600.0)
        assert (twice.most_pairs, twice.within_s) == (3, 3600.0)
        attempt = session.scalars(quick).one().attempt
        session.add(StageRun(experiment_id=ORIGINAL, stage="further", attempt=attempt, wall_s=500.0))
        original.wall_s += 500.0
        session.flush()
        again = short_plan(session, facts, original, deployed.recipe.promise, within_s=3050.0)
        assert again.most_pairs == 3, "what no check measures takes none of its time"


def test_the_plan_of_a_check_is_not_cut_to_what_a_short_campaign_could_pay_for_of_its_first_test(
    deployed: Deployed,
) -> None:
    """A campaign of five minutes gives a test 4 pairs of its plan's 16, beside the validation's 2."""
    with deployed.database.write() as session:
        original = session.get_one(Experiment, ORIGINAL)
        verdict = session.scalars(select(Verdict).where(Verdict.experiment_id == ORIGINAL)).one()
        campaign = session.get_one(Campaign, original.campaign_id)
        campaign.spec = {
            **campaign.spec,
            "plan": {**campaign.spec["plan"], "full_pairs": 16, "validation_pairs": 2},
        }
        original.plan = {**original.plan, "full_pairs": 4, "validation_pairs": 2}
        session.execute(update(StageRun).where(StageRun.experiment_id == ORIGINAL).values(wall_s=0.0))
        quick = select(StageRun).where(
            StageRun.experiment_id == ORIGINAL, StageRun.stage == Stage.QUICK.value
        )
        session.scalars(quick).one().wall_s = 20.0 * (verdict.launches // 2)
        original.wall_s = 20.0 * (verdict.launches // 2) + 8.0
        session.flush()
        facts, promise = read_facts(session, 1), deployed.recipe.promise
        by_time = short_plan(session, facts, original, promise)
        assert by_time.most_pairs == 14, "(300 − 8) / 20 of them fit"
        by_plan = short_plan(session, facts, original, promise, within_s=3600.0)
        assert by_plan.most_pairs == 18, "the campaign's own plan allows no more"


def test_without_anything_known_of_how_pairs_vary_the_power_is_said_not_to_be_known(
    deployed: Deployed,
) -> None:
    with deployed.database.write() as session:
        verdict = session.scalars(select(Verdict).where(Verdict.experiment_id == ORIGINAL)).one()
        verdict.judge = {**verdict.judge, "details": {"metric": "tpot_ms"}}
        session.execute(delete(NoiseLaunch))
        original = session.get_one(Experiment, ORIGINAL)
        short = short_plan(session, read_facts(session, 1), original, deployed.recipe.promise)
    assert short.power is None
    assert short.pairs == short.most_pairs
    assert short.words.endswith("how sure it is to find the gain again is not known")
