"""The rules of quantization, drafting and the ways of pruning, over the space of all levers."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.proposers.dedupe import refusal
from agent.proposers.draft import claim
from agent.proposers.drafting_rule import drafting, measured_again
from agent.proposers.optuna_tpe import OptunaProposer, values_told
from agent.proposers.port import CampaignView, Draft
from agent.proposers.pruning_rule import MOST_LAYERS_AT_ONCE
from agent.proposers.recombination import recombinations
from agent.proposers.rules import RulesProposer
from agent.proposers.step_profile import step_profile
from experiments.measurement.evidence import Metric
from experiments.measurement.judging import Outcome
from experiments.space.budget import ParameterBudget
from experiments.space.configuration import Configuration
from experiments.space.legality import joint_refusal
from tests.recorded.vllm_kernels import recorded_parts
from tests.unit.agent.four_levers import (
    AWQ,
    AWQ_32,
    BASELINE,
    BUDGET,
    DFLASH,
    FACTS,
    RTN_8,
    SHAPE,
    SPACE,
    mtp,
    pruned,
    set_to,
    trial,
    view,
)

SUPPORTED, REFUTED = Outcome.SUPPORTED, Outcome.REFUTED
COMPILED = set_to({"serving.compile": "default"})


def of_lever(campaign: CampaignView, lever: str, count: int = 60) -> list[Draft]:
    return [draft for draft in RulesProposer().propose(campaign, count) if draft.lever == lever]


def test_the_first_drafts_try_every_lever_once() -> None:
    assert {draft.lever for draft in RulesProposer().propose(view(), len(SPACE.levers))} == set(SPACE.levers)


def test_quantization_cites_where_the_bytes_are_and_claims_bytes_where_weights_are_dequantized() -> None:
    [first, *rest] = of_lever(view(), "quantization")
    assert first.metric is Metric.STEP_WEIGHT_BYTES
    assert "of them in projections and" in first.rationale
    assert "in the output head" in first.rationale
    assert "This engine dequantizes weights as it loads, so that no step gets faster." in first.rationale
    assert first.claim.endswith("a step read at least 3 % fewer bytes of weights.")
    assert {draft.candidate["quantization.method"] for draft in (first, *rest)} == {"awq", "rtn"}
    small_groups = next(draft for draft in rest if draft.candidate["quantization.group_size"] == 32)
    assert "At 4 bits in groups of 32 a weight takes 4.500 bits" in small_groups.rationale


def test_quantizing_the_head_too_is_one_clause_of_the_claim() -> None:
    headed = set_to({"quantization.lm_head": "quantized"}, AWQ)
    told = claim(SPACE, BASELINE, headed, 0.01, Metric.TASK_CORRECT)
    assert told.startswith(
        "Quantizing with the head to 4 bits by awq in groups of 128 makes at least 1 point "
    )
    compiled = set_to({"serving.compile": "default"}, headed)
    assert ",," not in claim(SPACE, BASELINE, compiled, 0.03, Metric.TPOT_MS)


@pytest.mark.parametrize(
    ("objective", "said"),
    [
        (Metric.TPOT_MS, "makes a token at least 3 % faster."),
        (Metric.TTFT_MS, "makes the first token come at least 3 % sooner."),
        (Metric.ITL_MS, "makes the gap between tokens at least 3 % shorter."),
        (Metric.E2EL_MS, "makes a request at least 3 % faster."),
    ],
)
def test_a_claim_says_what_the_campaign_is_about(objective: Metric, said: str) -> None:
    drafts = of_lever(replace(view(serves_packed=True), objective=objective), "quantization")
    assert drafts
    assert all(said in draft.claim for draft in drafts)


def test_an_engine_of_packed_weights_is_claimed_to_get_faster() -> None:
    drafts = of_lever(view(serves_packed=True), "quantization")
    assert {draft.metric for draft in drafts} == {None}
    assert all("makes a token at least 3 % faster." in draft.claim for draft in drafts)


def test_a_campaign_that_takes_no_other_metric_gets_none() -> None:
    drafts = RulesProposer().propose(view(other_metrics=False), 60)
    assert {draft.metric for draft in drafts} == {None}


def test_what_only_spends_bytes_is_claimed_to_save_bits() -> None:
    drafts = {draft.candidate: draft for draft in of_lever(view(incumbent=AWQ), "quantization")}
    assert drafts[AWQ_32].metric is Metric.NLL_BITS
    assert drafts[AWQ_32].claim == (
        "Quantizing in groups of 32 instead of 128 makes the same text take at least 3 % fewer bits."
    )
    corpus = set_to({"quantization.corpus": "instruct"}, AWQ)
    assert drafts[corpus].claim.startswith("Calibrating on instruct instead of raw")
    head = set_to({"quantization.lm_head": "quantized"}, AWQ)
    assert drafts[head].metric is Metric.STEP_WEIGHT_BYTES
    assert all(draft.candidate["quantization.method"] != "none" for draft in drafts.values())


def test_drafting_names_the_acceptance_at_which_it_breaks_even() -> None:
    drafts = {draft.candidate: draft for draft in of_lever(view(), "drafting")}
    assert drafts[mtp(2)].claim == "Drafting 2 tokens by mtp makes a token at least 3 % faster."
    assert "the MTP head, whose weights the model has already" in drafts[mtp(2)].rationale
    assert "% of first drafts accepted" in drafts[mtp(2)].rationale
    assert max(c["drafting.draft_tokens"] for c in drafts if c["drafting.method"] == "mtp") == 4  # type: ignore[type-var]
    assert {c["drafting.method"] for c in drafts} == {"mtp", "ngram", "dflash"}


def test_drafting_names_what_the_processor_does_for_it_where_a_profile_by_kernels_tells() -> None:
    told = {
        by: {draft.candidate: draft.rationale for draft in of_lever(campaign, "drafting")}[mtp(1)]
        for by, campaign in {
            "parts": view(),
            "kernels": replace(view(), profile=recorded_parts("bf16")),
        }.items()
    }
    assert "the processor" not in told["parts"]
    assert ", and what the processor does for it about 6 %, " in told["kernels"]


def test_under_a_budget_a_drafter_comes_with_the_pruning_that_pays_for_it() -> None:
    campaign = view(refused=BUDGET.refusal)
    drafts = RulesProposer().propose(campaign, 200)
    external = [draft for draft in drafts if draft.candidate["drafting.method"] == "dflash"]
    assert external
    for draft in external:
        assert draft.lever == "drafting+pruning"
        assert draft.candidate["pruning.layers_removed"] == 2
        assert "400,000 must be pruned" in draft.rationale
    assert any(draft.candidate["drafting.method"] == "mtp" and draft.lever == "drafting" for draft in drafts)


def test_where_pruning_pays_for_nothing_what_is_refused_comes_with_none() -> None:
    campaign = replace(view(refused=BUDGET.refusal), pruning_pays=False)
    drafts = [*RulesProposer().propose(campaign, 200), *OptunaProposer().propose(campaign, 25)]
    assert "mtp" in {draft.candidate["drafting.method"] for draft in drafts}
    assert not [draft for draft in drafts if "must be pruned" in draft.rationale]


SMALLER = ParameterBudget.of(SHAPE, 4_000_000, {("dflash", "packaged"): 400_000})


def test_where_the_baseline_is_above_the_budget_pruning_that_fits_is_proposed_first() -> None:
    least = next(n for n in range(1, 9) if SMALLER.refusal(pruned(n)) is None)
    assert least > MOST_LAYERS_AT_ONCE  # what is proposed elsewhere does not fit
    drafts = RulesProposer().propose(view(refused=SMALLER.refusal), 200)
    assert drafts[0].lever == "pruning"
    assert f"more than the budget of {SMALLER.total:,}" in drafts[0].rationale
    alone = {d.candidate["pruning.layers_removed"] for d in drafts if d.lever == "pruning"}
    assert alone == {least}  # by whatever criterion and of whatever kind


def test_where_the_baseline_is_above_the_budget_every_lever_comes_with_pruning_that_fits() -> None:
    drafts = RulesProposer().propose(view(refused=SMALLER.refusal), 200)
    with_it = {lever for draft in drafts for lever in draft.lever.split("+")}
    assert with_it == set(SPACE.levers)
    assert all(SMALLER.refusal(draft.candidate) is None for draft in drafts)
    assert all("pruning" in draft.lever for draft in drafts)


def test_groups_that_do_not_suit_attention_are_proposed_with_attention_kept() -> None:
    facts = replace(FACTS, input_sizes={**FACTS.input_sizes, "self_attn.o_proj": 160})
    drafts = RulesProposer().propose(view(refused=lambda each: joint_refusal(each, facts)), 200)
    groups = {
        (each.candidate["quantization.group_size"], each.candidate["quantization.keep"])
        for each in drafts
        if "quantization" in each.lever
    }
    assert groups == {(32, "none"), (128, "attention")}


def test_a_drafter_that_the_sampler_draws_comes_with_the_pruning_that_pays_for_it() -> None:
    drafts = OptunaProposer().propose(view(refused=BUDGET.refusal), 25)
    paid = [draft for draft in drafts if "400,000 must be pruned" in draft.rationale]
    assert paid
    for draft in paid:
        assert draft.candidate["drafting.method"] == "dflash"
        assert draft.candidate["pruning.layers_removed"] == 2
        assert "The fewest layers that pay for it go with it." in draft.rationale
    free = OptunaProposer().propose(view(), 25)
    assert not [draft for draft in free if "must be pruned" in draft.rationale]


@pytest.mark.parametrize("proposer", [RulesProposer(), OptunaProposer()], ids=lambda each: each.name)
def test_nothing_refused_is_proposed(proposer: RulesProposer | OptunaProposer) -> None:
    campaign = view(refused=BUDGET.refusal)
    for draft in proposer.propose(campaign, 25):
        assert BUDGET.refusal(draft.candidate) is None
        assert refusal(draft, SPACE, [], campaign.refused) is None


def test_a_refused_draft_of_anyone_is_refused_with_the_reason() -> None:
    [draft] = [d for d in RulesProposer().propose(view(), 200) if d.candidate == DFLASH]
    found = refusal(draft, SPACE, [], BUDGET.refusal)
    assert found is not None
    assert "400,000 must be pruned" in found.reason


def test_drafting_is_measured_again_when_the_target_of_an_incumbent_that_drafts_has_changed() -> None:
    now = pruned(1, mtp(2))
    trials = [
        trial(mtp(2), SUPPORTED, -0.3, hypothesis_id=1, length=2.2),
        trial(now, SUPPORTED, -0.1, control=mtp(2), hypothesis_id=2),
    ]
    [idea] = measured_again(view(trials, incumbent=now))
    assert idea.candidate == pruned(1)
    assert idea.parents == (1,)
    assert "H-001 measured drafting 2 by mtp on a target with other weights" in idea.rationale
    drafts = RulesProposer().propose(view(trials, incumbent=now), 3)
    assert idea.candidate in [draft.candidate for draft in drafts]
    assert any(draft.claim.startswith("No longer drafting by mtp makes") for draft in drafts)


def test_drafting_that_was_refuted_is_measured_again_on_a_new_target() -> None:
    trials = [
        trial(mtp(2), REFUTED, 0.1, hypothesis_id=1, length=1.3),
        trial(pruned(1), SUPPORTED, -0.1, hypothesis_id=2),
    ]
    [idea] = measured_again(view(trials, incumbent=pruned(1)))
    assert idea.candidate == mtp(2, pruned(1))
    assert "pruning.method none → depth" in idea.rationale


def test_drafting_is_not_measured_again_on_the_target_it_was_measured_on() -> None:
    old = trial(mtp(2), REFUTED, 0.1, hypothesis_id=1)
    again = trial(mtp(2, AWQ), REFUTED, 0.1, control=AWQ, hypothesis_id=2)
    assert measured_again(view([old])) == []
    assert measured_again(view([old, again], incumbent=AWQ)) == []
    faster = trial(COMPILED, SUPPORTED, -0.4, hypothesis_id=3)
    assert measured_again(view([old, faster], incumbent=COMPILED)) == [], "its weights are the same"


def test_where_a_choice_of_layers_lost_the_quality_another_criterion_is_proposed() -> None:
    lost = trial(pruned(1), REFUTED, -0.08, hypothesis_id=4, bits=0.05)
    drafts = of_lever(view([lost]), "pruning", 200)
    ways = {d.candidate["pruning.criterion"] for d in drafts if d.candidate["pruning.restrict"] == "any"}
    assert ways == {"leave_one_out_kl", "greedy_kl"}
    other = next(d for d in drafts if d.candidate == pruned(1, criterion="greedy_kl"))
    assert "H-004 was fast enough and lost the quality with layers chosen by" in other.rationale
    assert other.parents == (4,)
    assert other.claim == "Removing 1 layer by greedy_kl makes a token at least 3 % faster."


def test_layers_of_a_quantized_model_are_also_ranked_on_it() -> None:
    drafts = of_lever(view(incumbent=AWQ), "pruning", 200)
    assert pruned(1, AWQ, ranked_on="quantized") in [draft.candidate for draft in drafts]


def test_supported_changes_of_several_levers_go_together_and_what_excludes_itself_is_passed_over() -> None:
    trials = [
        trial(mtp(2), SUPPORTED, -0.4, hypothesis_id=1),
        trial(RTN_8, SUPPORTED, -0.3, hypothesis_id=2),
        trial(AWQ, SUPPORTED, -0.2, hypothesis_id=3),
        trial(pruned(2), SUPPORTED, -0.1, hypothesis_id=4),
    ]
    [everything, *_] = recombinations(view(trials))
    assert everything.candidate == pruned(2, mtp(2, RTN_8))
    assert everything.parents == (1, 2, 4)
    assert SPACE.is_legal(everything.candidate)


def test_a_claim_on_another_metric_is_neither_put_together_nor_told_to_the_optimizer() -> None:
    smaller = trial(AWQ, SUPPORTED, -0.6, metric=Metric.STEP_WEIGHT_BYTES)
    assert recombinations(view([smaller])) == []
    assert values_told(view([smaller])) == [(BASELINE, 0.0)]


def test_values_of_the_users_own_do_not_stop_the_optimizer() -> None:
    own = set_to({"quantization.corpus": "user:/my text.txt"}, AWQ)
    drafts = OptunaProposer().propose(view([trial(own, SUPPORTED, -0.1)], incumbent=own), 4)
    assert len(drafts) == 4
    assert all(refusal(draft, SPACE, []) is None for draft in drafts)


POINTS: list[Configuration] = [
    mtp(2), RTN_8, AWQ, AWQ_32, pruned(1), pruned(2, AWQ, order="after_quantization"), DFLASH, COMPILED,
    mtp(1, pruned(1)), pruned(2, DFLASH), set_to({"quantization.corpus": "user:a"}, AWQ),
]  # fmt: skip
OUTCOMES = (SUPPORTED, REFUTED, Outcome.INCONCLUSIVE, Outcome.INFEASIBLE)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(POINTS), st.sampled_from([BASELINE, *POINTS]), st.sampled_from(OUTCOMES)),
        max_size=5,
    ),
    st.sampled_from([BASELINE, *POINTS]),
    st.booleans(),
)
def test_whatever_was_tried_every_draft_is_legal_and_not_refused(
    tried: list[tuple[Configuration, Configuration, Outcome]], incumbent: Configuration, limited: bool
) -> None:
    trials = [
        trial(candidate, outcome, -0.1, control=control, hypothesis_id=number)
        for number, (candidate, control, outcome) in enumerate(tried, start=1)
        if candidate != control
    ]
    refused = BUDGET.refusal if limited else view().refused
    campaign = view(trials, incumbent=incumbent, refused=refused)
    ideas = [*measured_again(campaign), *drafting(campaign, step_profile(campaign.profile, 12.5))]
    for draft in RulesProposer().propose(campaign, 30):
        assert refusal(draft, SPACE, [], campaign.refused) is None
        assert math.isfinite(draft.prediction.log_ratio_mean)
    for found in (*recombinations(campaign), *ideas):
        assert SPACE.is_legal(found.candidate)
        assert found.candidate != incumbent
        assert campaign.refused(found.candidate) is None


def test_tpe_takes_quantization_along_only_where_packed_weights_are_served() -> None:
    def touched(serves_packed: bool) -> bool:
        drafts = OptunaProposer().propose(view(serves_packed=serves_packed), 12)
        assert drafts
        return any("quantization" in draft.lever.split("+") for draft in drafts)

    assert not touched(serves_packed=False)
    assert touched(serves_packed=True)


SEED = "quantization.seed"
REDRAWN = set_to({SEED: 2}, AWQ)


@pytest.mark.parametrize("proposer", [RulesProposer(), OptunaProposer()], ids=lambda each: each.name)
@pytest.mark.parametrize("incumbent", [BASELINE, AWQ, REDRAWN], ids=["not quantized", "seed 0", "seed 2"])
@pytest.mark.parametrize("serves_packed", [False, True])
def test_no_proposer_draws_the_same_thing_anew(
    proposer: RulesProposer | OptunaProposer, incumbent: Configuration, serves_packed: bool
) -> None:
    trials = [
        trial(AWQ_32, SUPPORTED, -0.2, hypothesis_id=1),
        trial(set_to({SEED: 1}, AWQ), SUPPORTED, -0.1, control=AWQ, hypothesis_id=2),
        trial(set_to({SEED: 1}, AWQ_32), REFUTED, 0.1, control=AWQ_32, hypothesis_id=3),
    ]
    drafts = proposer.propose(view(trials, incumbent=incumbent, serves_packed=serves_packed), 40)
    seeds = {draft.candidate[SEED] for draft in drafts if SEED in draft.candidate}
    assert drafts
    assert seeds <= {incumbent.get(SEED, 0)}
    if serves_packed:
        assert seeds, "quantization itself is proposed"


def test_another_draw_that_was_supported_is_not_put_together_with_anything() -> None:
    redrawn = trial(set_to({SEED: 1}, AWQ), SUPPORTED, -0.1, control=AWQ, hypothesis_id=1)
    drafted = trial(mtp(2), SUPPORTED, -0.4, hypothesis_id=2)
    assert [found.candidate for found in recombinations(view([redrawn, drafted], incumbent=AWQ))] == [
        mtp(2, AWQ)
    ]
