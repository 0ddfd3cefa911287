"""What tests are expected to cost before one has run: by this target's own baseline and builds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agent.campaign.decision.expected_cost import cost_priors
from agent.campaign.known.measured import Baseline
from agent.plan.stored_builds import measured_builds
from agent.surrogate.cost_priors import MEASURE_PRIOR_S, PAIRS_PRIOR, QUANTIZATION_S, CostPriors
from configs.campaign import load_campaign
from configs.models import load_model_profile
from db.models import Artifact
from db.session import Database
from experiments.space.configuration import Configuration
from tests.unit.agent.test_desk import BASELINE, COMPILED, desk, queued
from tests.unit.agent.test_questions import database

__all__ = ["database"]  # the fixture

PLAN = load_campaign("default").plan
SHAPE = load_campaign("shape")
NINE = load_model_profile("qwen3.5-9b")
AWQ = Configuration.of({"quantization.method": "awq"})


def measured(load_s: float | None, evaluation_s: float | None = None, tpot_ms: float = 5.0) -> Baseline:
    digest = BASELINE.digest
    return Baseline(
        {digest: tpot_ms}, {digest: 40.0}, (), 1.0, 1e12, load_s=load_s, evaluation_s=evaluation_s
    )


def priors(
    baseline: Baseline, *, in_turn: bool = False, built_s: dict[str, float] | None = None
) -> CostPriors:
    return cost_priors(PLAN, baseline, BASELINE.digest, NINE, built_s or {}, in_turn=in_turn)


def test_a_target_on_which_loads_take_minutes_is_expected_to_take_them_each_pair() -> None:
    quick, slow = priors(measured(5.0)), priors(measured(105.0))
    assert slow.measure_s - quick.measure_s == pytest.approx(PAIRS_PRIOR * 100.0)
    assert slow.screen_s - quick.screen_s == pytest.approx(100.0)
    assert slow.measure_s > 5 * MEASURE_PRIOR_S


@pytest.mark.parametrize(("at_once", "loads"), [(None, 3), (1, 3), (3, 3), (4, 2), (8, 2)])
def test_pairs_of_a_shape_that_load_together_are_waited_for_once(at_once: int | None, loads: int) -> None:
    def of(load_s: float, *, made_up: bool = True) -> CostPriors:
        return cost_priors(
            SHAPE.plan, measured(load_s), BASELINE.digest, NINE, {}, at_once=at_once, made_up=made_up
        )

    assert of(105.0).measure_s - of(5.0).measure_s == pytest.approx(loads * 100.0)
    assert of(5.0).loads == loads
    assert of(5.0, made_up=False).loads == PAIRS_PRIOR, "the look at quality needs the room of a second pair"


def test_in_turn_a_pair_takes_two_loads() -> None:
    together, alone = priors(measured(100.0)), priors(measured(100.0), in_turn=True)
    assert alone.measure_s - together.measure_s == pytest.approx(PAIRS_PRIOR * 100.0)
    assert alone.screen_s == together.screen_s


def test_slower_requests_and_a_longer_evaluation_cost_more() -> None:
    assert priors(measured(10.0, tpot_ms=50.0)).measure_s > priors(measured(10.0)).measure_s
    longer = priors(measured(10.0, evaluation_s=40.0))
    assert longer.measure_s - priors(measured(10.0)).measure_s == pytest.approx(40.0)
    assert longer.screen_s == pytest.approx(50.0)


def test_a_baseline_that_told_no_load_leaves_the_packaged_priors() -> None:
    assert priors(measured(None)).measure_s == MEASURE_PRIOR_S


def test_a_build_of_a_large_model_is_guessed_by_its_size_until_one_was_measured() -> None:
    guessed = priors(measured(10.0)).quantization_s(AWQ)
    assert guessed > 5 * QUANTIZATION_S["awq"]
    assert priors(measured(10.0), built_s={"awq": 321.0}).quantization_s(AWQ) == 321.0
    assert CostPriors().quantization_s(AWQ) == QUANTIZATION_S["awq"]


def test_the_desk_ranks_by_what_this_target_s_loads_cost() -> None:
    def cost_s(load_s: float) -> float:
        at = replace(
            desk(queued(1, COMPILED)), baseline=replace(measured(load_s), bandwidth_bytes_per_s=1e10)
        )
        return at.ranking.places[0].cost_s

    assert cost_s(100.0) - cost_s(10.0) == pytest.approx(PAIRS_PRIOR * 90.0)


def test_builds_are_read_by_method_of_this_model_alone_and_a_greedy_one_by_layer(database: Database) -> None:
    def built(digest: str, build_s: float, model: str = "m", **inputs: object) -> Artifact:
        return Artifact(
            digest=digest,
            kind="checkpoint",
            inputs={"model": model, **inputs},
            tool_versions={},
            path=str(Path("nowhere")),
            bytes=1,
            build_s=build_s,
        )

    awq = {"stage": "quantize", "recipe": {"method": "awq"}}
    greedy = {"pruning.criterion": "greedy_kl", "pruning.layers_removed": 4}
    with database.write() as session:
        session.add_all(
            [
                built("a", 100.0, **awq),
                built("b", 300.0, **awq),
                built("e", 0.0, **awq),  # made elsewhere and used here
                built("c", 9.0, "other", **awq),
                built("d", 80.0, stage="prune", knobs=greedy),
            ]
        )
    with database.read() as session:
        assert measured_builds(session, "m") == {"awq": 200.0, "greedy_kl": 20.0}
        assert measured_builds(session, "nobody") == {}
