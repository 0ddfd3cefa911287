"""What drafting is expected to bring, and what reports of acceptance teach."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.surrogate.acceptance import DROP, PRIOR, AcceptanceBelief
from agent.surrogate.beliefs import Beliefs
from agent.surrogate.carried import Carried
from agent.surrogate.drafting import (
    GROWTH_UNKNOWN,
    KERNELS_OUTSIDE,
    DraftingCost,
    acceptance_length,
    first_acceptance,
)
from experiments.engines.port import PartTime
from experiments.measurement.judging import Outcome
from experiments.measurement.plan import Margins, Prediction
from tests.recorded.vllm_kernels import recorded_parts
from tests.unit.agent.campaigns import LAYERS, PROFILE
from tests.unit.agent.four_levers import (
    AWQ,
    BASELINE,
    DFLASH,
    PHYSICS,
    SPACE,
    VIEW,
    beliefs,
    mtp,
    pruned,
    trial,
)

COST = DraftingCost.of(PROFILE, LAYERS)

BY_KIND_US = {
    "small": 132,
    "gemm": 121,
    "attention": 26,
    "gdn_state": 22,
    "in_proj_ba": 20,
    "conv1d": 14,
    "sampling": 10,
    "lm_head": 2,
    KERNELS_OUTSIDE: 1667,
}
"""Microseconds of a step of the packaged model on vLLM 0.26 on an H200, by kind of kernel: E-0001 of a
campaign of `levers` on 27 November 2026, as `autoinfer show` tells it."""

OF_LAUNCHES = replace(
    PHYSICS, tpot_ms=2.16, profile=[PartTime(kind, kind, us / 1e3, 0) for kind, us in BY_KIND_US.items()]
)
"""A step that is all but launches."""

ONE_BY_MTP = replace(trial(mtp(1), Outcome.REFUTED, 0.693, length=1.58), effect_se_log=0.119)
"""E-0023 of the same campaign; two, three and four tokens were measured later: +119, +61 and +137 %."""


def interval(found: Prediction) -> tuple[float, float]:
    """The 80 % interval, as ratios of TPOT."""
    low, high = (found.log_ratio_mean + side * 1.2816 * found.log_ratio_sd for side in (-1, 1))
    return math.exp(low), math.exp(high)


@given(st.floats(0.0, 1.0), st.integers(1, 7))
def test_acceptance_length_and_acceptance_are_each_others_inverse(first: float, tokens: int) -> None:
    length = acceptance_length(first, tokens)
    assert 1 <= length <= tokens + 1
    assert first_acceptance(length, tokens) == pytest.approx(first, abs=1e-6)


@given(st.floats(0.2, 1.0), st.integers(1, 6))
def test_more_draft_tokens_are_accepted_with_falling_returns(first: float, tokens: int) -> None:
    gains = [acceptance_length(first, tokens + 1 + k) - acceptance_length(first, tokens + k) for k in (0, 1)]
    assert 0 < gains[1] < gains[0] <= 1


@given(st.sampled_from(["mtp", "ngram", "dflash", "draft_model"]), st.integers(1, 7))
def test_at_the_break_even_a_drafting_step_costs_what_it_gives(method: str, tokens: int) -> None:
    first = COST.break_even_acceptance(method, tokens)
    if first is None:
        assert acceptance_length(1.0, tokens) < COST.step(method, tokens)
    else:
        assert acceptance_length(first, tokens) == pytest.approx(COST.step(method, tokens), abs=1e-6)


def test_a_step_whose_time_is_in_the_recurrence_grows_most_with_each_token() -> None:
    recurrent = [replace(p, time_ms=5 * p.time_ms) if p.kind == "gdn" else p for p in PROFILE]
    head = [replace(p, time_ms=20 * p.time_ms) if p.kind == "lm_head" else p for p in PROFILE]
    assert DraftingCost.of(head, LAYERS).growth < COST.growth < DraftingCost.of(recurrent, LAYERS).growth
    assert DraftingCost.of(head, LAYERS).mtp_token > COST.mtp_token


def test_without_parts_an_assumed_growth_is_taken() -> None:
    assert DraftingCost.of(()).growth == GROWTH_UNKNOWN
    assert DraftingCost.of([PartTime("decode_step", "compiled", 3.0, 9)]).growth == GROWTH_UNKNOWN


def test_the_prior_is_the_acceptance_length_over_the_cost_of_the_step() -> None:
    found = PHYSICS.expect("drafting", VIEW.settings(mtp(2))["drafting"])
    expected = acceptance_length(PRIOR["mtp"][0], 2) / COST.step("mtp", 2)
    assert math.exp(-found.mean_log) == pytest.approx(expected)
    assert 0.1 < math.hypot(found.sd_log, *found.joint.values()) < 0.5


def test_a_reported_acceptance_length_corrects_all_numbers_of_draft_tokens_of_its_method() -> None:
    low = [trial(mtp(1), Outcome.REFUTED, None, length=1.2)]
    high = [trial(mtp(1), Outcome.REFUTED, None, length=1.9)]
    for candidate in (mtp(1), mtp(3)):
        means = [beliefs(t).predict(BASELINE, candidate).log_ratio_mean for t in (high, [], low)]
        assert means == sorted(means)
        spreads = [beliefs(t).predict(BASELINE, candidate).log_ratio_sd for t in (high, [])]
        assert spreads[0] < spreads[1]
    other = [beliefs(t).predict(BASELINE, DFLASH).log_ratio_mean for t in (low, [])]
    assert other[0] == other[1]


def test_the_acceptance_that_trials_report_is_believed() -> None:
    known = AcceptanceBelief.learn(VIEW, [trial(mtp(2), Outcome.SUPPORTED, -0.1, length=2.2)])
    assert acceptance_length(known.of("mtp", ()).mean, 2) == pytest.approx(2.2, abs=0.03)
    assert known.of("mtp", ()).sd < PRIOR["mtp"][1] / 4


def test_who_is_not_believed_in_times_is_not_believed_in_what_is_accepted() -> None:
    """The same runs measured both."""
    report = trial(mtp(2), Outcome.SUPPORTED, None, length=2.6)
    expected = beliefs().predict(BASELINE, AWQ).log_ratio_mean
    means = []
    for effect in (expected, math.log(10.0)):
        timed = replace(trial(AWQ, Outcome.REFUTED, 0.0), effect_log=effect)
        told = [Carried(each, "C-1", same_model=True, same_workload=True) for each in (report, *[timed] * 4)]
        learnt = Beliefs.learn(SPACE, PHYSICS, [], Margins(), carried=told)
        means.append(learnt.latency.physics.acceptance.of("mtp", ()).mean)
    alone = AcceptanceBelief.learn(VIEW, []).of("mtp", ()).mean
    assert means[0] - alone > 0.1
    assert 0 <= means[1] - alone < 0.01


@pytest.mark.parametrize("target", [AWQ, pruned(2)])
def test_on_a_changed_target_less_is_accepted_and_less_is_known(target: object) -> None:
    changed = AWQ if target == AWQ else pruned(2)
    report = [trial(mtp(2), Outcome.SUPPORTED, -0.2, length=2.2)]
    known = AcceptanceBelief.learn(VIEW, report)
    there = VIEW.target(VIEW.settings(mtp(2, changed)))
    assert known.of("mtp", there).mean == pytest.approx(known.of("mtp", ()).mean - DROP)
    assert known.of("mtp", there).target_sd > 0 == known.of("mtp", ()).target_sd
    here, moved = (beliefs(report).predict(one, mtp(2, one)) for one in (BASELINE, changed))
    assert moved.log_ratio_mean > here.log_ratio_mean
    assert moved.log_ratio_sd > here.log_ratio_sd


def test_a_report_on_the_changed_target_settles_it_there() -> None:
    reports = [
        trial(mtp(2), Outcome.SUPPORTED, None, length=2.2),
        trial(mtp(2, AWQ), Outcome.REFUTED, None, control=AWQ, length=1.5),
    ]
    known = AcceptanceBelief.learn(VIEW, reports)
    there = known.of("mtp", VIEW.target(VIEW.settings(AWQ)))
    assert acceptance_length(there.mean, 2) == pytest.approx(1.5, abs=0.08)
    assert acceptance_length(known.of("mtp", ()).mean, 2) == pytest.approx(2.2, abs=0.08)


def test_drafting_holds_quality_and_is_as_sure_to_run_as_others() -> None:
    known = beliefs()
    assert known.p_quality(mtp(2)) > 0.9
    assert known.p_feasible(mtp(2)) == known.p_feasible(pruned(1))


@pytest.mark.parametrize("tokens", [1, 2, 3, 4])
def test_where_a_step_is_launches_drafting_may_gain_or_lose_until_one_trial_tells(tokens: int) -> None:
    """What drafting costs the processor is one unknown of its method, whatever the number of tokens."""
    low, high = interval(beliefs((), OF_LAUNCHES).predict(BASELINE, mtp(tokens)))
    assert low < 1 / 1.2
    assert high > 1.2
    low, _ = interval(beliefs([ONE_BY_MTP], OF_LAUNCHES).predict(BASELINE, mtp(tokens)))
    assert low > 1


def test_what_drafting_costs_the_processor_says_nothing_of_another_method() -> None:
    """But for what all drafting has in common, which is little."""
    before, after = (beliefs(t, OF_LAUNCHES).predict(BASELINE, DFLASH) for t in ([], [ONE_BY_MTP]))
    assert abs(after.log_ratio_mean - before.log_ratio_mean) < 0.1 * before.log_ratio_sd


def test_where_kernels_take_the_step_the_processor_hardly_counts() -> None:
    """The step of the 9B shape, six percent of which lie outside kernels."""
    cost = DraftingCost.of(recorded_parts("bf16"), LAYERS[:4] * 8)
    for tokens in (1, 2, 3):
        assert 0 < cost.host("mtp", tokens) < 0.07 * cost.step("mtp", tokens)


@given(st.sampled_from(["mtp", "ngram", "dflash", "draft_model"]), st.integers(1, 7))
def test_without_a_profile_by_kernels_nothing_is_said_of_the_processor(method: str, tokens: int) -> None:
    assert COST.host(method, tokens) == DraftingCost.of(()).host(method, tokens) == 0


@given(st.integers(2, 7))
def test_only_a_drafter_of_one_token_at_a_time_is_launched_again_for_each(tokens: int) -> None:
    cost = DraftingCost.of(OF_LAUNCHES.profile, LAYERS)
    assert cost.host("mtp", tokens) > cost.host("mtp", 1) == cost.host("dflash", tokens)
