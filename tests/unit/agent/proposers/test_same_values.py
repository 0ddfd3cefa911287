"""What a space knows to do the same is no change, whichever of both names the best so far has."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest

from agent.ground.shape import same_shape
from agent.language_model.answer import Proposal
from agent.proposers.already_runs import already_runs, measured_as
from agent.proposers.carried import CarriedProposer
from agent.proposers.language_model import Ready, draft_from
from agent.proposers.optuna_tpe import OptunaProposer
from agent.proposers.port import CampaignView, Proposer, Trial
from agent.proposers.random_search import RandomProposer
from agent.proposers.recombination import RecombinationProposer
from agent.proposers.rules import RulesProposer
from experiments.measurement.judging import Outcome
from experiments.measurement.plan import Prediction
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.loading import load_space
from experiments.space.workload_rules import BATCH_TOKENS, same_at
from tests.unit.agent import campaigns

VLLM = load_space("vllm")
SPACE = VLLM.passing_over({BATCH_TOKENS: same_at(VLLM, 4, 512, 8192).values()})
"""As a campaign has it of four requests at once of 512 tokens where auto is 8,192: all but 2,048 do it."""


def view(tokens: KnobValue) -> CampaignView:
    named = SPACE.configuration({BATCH_TOKENS: tokens})
    return replace(campaigns.view(), space=SPACE, baseline=named, incumbent=named)


@pytest.mark.parametrize("proposer", [RulesProposer(), OptunaProposer(), RandomProposer()])
@pytest.mark.parametrize("named", ["auto", 4096, 16_384])
def test_no_proposal_changes_a_name_alone_or_beside_another_change(
    proposer: Proposer, named: KnobValue
) -> None:
    found = [
        draft.candidate.get(BATCH_TOKENS)
        for seed in range(8)
        for draft in proposer.propose(replace(view(named), seed=seed), 60)
    ]
    assert found
    assert set(found) <= {named, 2048, None}, "a whole prompt a step has no such knob"


METHOD = "quantization.method"
ON_A_SHAPE = VLLM.passing_over({METHOD: same_shape(VLLM).values()})
"""As a campaign has it on made-up weights."""


def on_a_shape(*trials: Trial, **knobs: KnobValue) -> CampaignView:
    begun = ON_A_SHAPE.configuration(knobs)
    plain = replace(campaigns.view(), serves_packed=True, trials=trials)
    return replace(plain, space=ON_A_SHAPE, baseline=ON_A_SHAPE.configuration({}), incumbent=begun)


def packed(method: str, **knobs: KnobValue) -> Configuration:
    return ON_A_SHAPE.configuration({METHOD: method, **{f"quantization.{k}": v for k, v in knobs.items()}})


def test_no_shape_is_proposed_under_two_names() -> None:
    drafts = RulesProposer().propose(on_a_shape(), 80)
    quantized = [each.candidate for each in drafts if each.candidate[METHOD] != "none"]
    assert {each[METHOD] for each in quantized} == {"awq"}
    assert {each["quantization.bits"] for each in quantized} == {4, 8}, "what rounding begins with, too"
    assert not [pair for pair in combinations(quantized, 2) if ON_A_SHAPE.why_same(*pair) is not None]


def test_a_shape_that_an_older_campaign_measured_under_the_other_name_is_not_measured_again() -> None:
    ran = replace(
        campaigns.trial(campaigns.COMPILED, Outcome.REFUTED, 0.1),
        control=ON_A_SHAPE.configuration({}),
        candidate=packed("rtn", group_size=128),
    )
    proposed = [each.candidate for each in RulesProposer().propose(on_a_shape(ran), 80)]
    assert packed("awq", group_size=128) not in proposed
    assert packed("awq", group_size=32) in proposed
    assert measured_as(on_a_shape(ran), packed("awq", group_size=128)) == ran


def test_what_others_bring_under_the_other_name_is_proposed_under_the_one_that_is_offered() -> None:
    """Another campaign's best, what was supported on another best, and a language model's answer."""
    rounded, offered = packed("rtn", group_size=128), packed("awq", group_size=128)
    begun = on_a_shape().baseline
    carried = replace(on_a_shape(), carried_bests=(campaigns.carried_best(rounded, baseline=begun),))
    assert [each.candidate for each in CarriedProposer().propose(carried, 5)] == [offered]
    helped = replace(
        campaigns.trial(campaigns.COMPILED, Outcome.SUPPORTED, -0.3), control=begun, candidate=rounded
    )
    off = on_a_shape(**{"serving.async_scheduling": "off"})
    found = RecombinationProposer().propose(replace(off, trials=(helped,)), 5)
    assert [each.candidate for each in found] == [
        ON_A_SHAPE.with_change(offered, {"serving.async_scheduling": "off"})
    ]
    asked = Proposal(
        change=((METHOD, "rtn"), ("quantization.group_size", 128)),
        prediction=Prediction(log_ratio_mean=-0.3, log_ratio_sd=0.1),
        min_effect=0.03,
        refuted_if="A token takes as long.",
        rationale="Fewer bytes are read.",
        builds_on=(),
    )
    assert draft_from(on_a_shape(), Ready(asked, 1, 0, begun)).candidate == offered


def test_from_a_best_under_the_other_name_an_older_campaign_goes_on_under_it() -> None:
    drafts = RulesProposer().propose(on_a_shape(**{METHOD: "rtn"}), 80)
    found = [each.candidate for each in drafts if each.lever == "quantization"]
    assert {each[METHOD] for each in found} == {"rtn"}
    assert {each["quantization.group_size"] for each in found} >= {32, 64}


def test_another_name_is_what_runs_already_and_fewer_tokens_are_not() -> None:
    told = view(4096)
    assert already_runs(told, SPACE.with_change(told.incumbent, {BATCH_TOKENS: "auto"}))
    assert already_runs(told, SPACE.with_change(told.incumbent, {BATCH_TOKENS: 16_384}))
    assert not already_runs(told, SPACE.with_change(told.incumbent, {BATCH_TOKENS: 2048}))


def test_what_a_trial_measured_under_one_name_is_measured_under_the_other() -> None:
    eager = {"serving.graph_mode": "none"}
    ran = replace(
        campaigns.trial(campaigns.COMPILED, Outcome.REFUTED, 0.1),
        control=view(4096).incumbent,
        candidate=SPACE.configuration({BATCH_TOKENS: 4096, **eager}),
    )
    told = replace(view(4096), trials=(ran,))
    assert measured_as(told, SPACE.configuration(eager)) == ran
    assert measured_as(told, SPACE.configuration({BATCH_TOKENS: 2048, **eager})) is None
