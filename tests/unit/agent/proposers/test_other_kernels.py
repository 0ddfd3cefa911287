"""A quantization that was found slow on one kernel is not given up before the others were measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from agent.proposers.already_runs import already_runs, measured_as
from agent.proposers.port import CampaignView, Draft, Trial
from agent.proposers.rules import RulesProposer
from agent.ranking.ranking import rank
from agent.ranking.values import Candidate
from agent.surrogate.beliefs import Beliefs
from agent.surrogate.physics import Physics
from configs.models import load_model_profile
from experiments.measurement.judging import Outcome
from experiments.measurement.plan import Margins
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.loading import load_space
from tests.recorded.vllm_kernels import PROFILED, recorded_parts
from tests.unit.agent import campaigns

SPACE = load_space("vllm")
BASELINE = SPACE.configuration({})
NARROW = SPACE.with_change(BASELINE, {"serving.weight_dtype": "fp8"})
AWQ = SPACE.with_change(BASELINE, {"quantization.method": "awq", "quantization.group_size": 128})
KERNEL = "serving.linear_backend"
PARTS = tuple(recorded_parts("bf16"))
BANDWIDTH = float(PROFILED["bf16"]["copy_bytes_per_s"])
PHYSICS = Physics(
    baseline=BASELINE,
    tpot_ms=5.13,
    profile=PARTS,
    bandwidth_bytes_per_s=BANDWIDTH,
    shape=load_model_profile("qwen3.5-9b"),
    serves_packed=True,
)


def on(kernel: str) -> Configuration:
    return SPACE.with_change(AWQ, {KERNEL: kernel})


def trial(
    number: int, control: Configuration, candidate: Configuration, outcome: Outcome, ms: float, was: float
) -> Trial:
    """Figures are medians of the 9B shape on an H200 (docs/results/h200-9b.md)."""
    return replace(
        campaigns.trial(campaigns.COMPILED, outcome, ms / was - 1, hypothesis_id=number, se=0.005),
        control=control,
        candidate=candidate,
        lever="+".join(sorted(SPACE.levers_between(control, candidate))),
    )


FASTER = trial(1, BASELINE, NARROW, Outcome.SUPPORTED, 3.75, 5.24)
SLOW = trial(2, NARROW, AWQ, Outcome.REFUTED, 4.19, 3.75)


def beliefs(trials: Sequence[Trial], *, judges_quality: bool = False) -> Beliefs:
    return Beliefs.learn(SPACE, PHYSICS, trials, Margins(), judges_quality=judges_quality)


def view(trials: tuple[Trial, ...], incumbent: Configuration) -> CampaignView:
    predict = beliefs(trials).predict
    return replace(
        campaigns.view(),
        space=SPACE,
        baseline=BASELINE,
        incumbent=incumbent,
        trials=trials,
        taken=frozenset(each.candidate.digest for each in trials),
        profile=PARTS,
        bandwidth_bytes_per_s=BANDWIDTH,
        serves_packed=True,
        predict=predict,
        predict_on=predict,
    )


def on_kernels(drafts: Sequence[Draft]) -> list[Draft]:
    return [each for each in drafts if each.candidate.get(KERNEL) not in (None, "auto")]


def test_no_kernel_is_proposed_before_anything_was_quantized() -> None:
    assert not on_kernels(RulesProposer().propose(view((FASTER,), NARROW), 60))


def test_what_was_slow_on_one_kernel_is_proposed_on_each_other_with_where_it_was_slow() -> None:
    drafts = on_kernels(RulesProposer().propose(view((FASTER, SLOW), NARROW), 60))
    values = next(knob.values for knob in SPACE.knobs if knob.name == KERNEL)
    assert {each.candidate[KERNEL] for each in drafts} == set(values) - {"auto"}
    for each in drafts:
        assert "E-0002 found it not faster with the kernel auto" in each.rationale
        assert each.candidate["quantization.group_size"] == 128
    predicted = {
        (round(each.prediction.log_ratio_mean, 9), round(each.prediction.log_ratio_sd, 9)) for each in drafts
    }
    assert len(predicted) == 1, "no kernel is told from another"


def test_one_kernel_s_failure_leaves_the_others_their_chance_and_takes_its_own() -> None:
    after = beliefs((FASTER, SLOW))
    slow, other = (after.predict(NARROW, each) for each in (AWQ, on("marlin")))
    assert slow.log_ratio_mean == pytest.approx(math.log(4.19 / 3.75), abs=0.02)
    assert slow.log_ratio_sd < 0.06
    assert other.log_ratio_mean < slow.log_ratio_mean - 0.03
    assert other.log_ratio_sd > 2 * slow.log_ratio_sd


@pytest.mark.parametrize("supported", [False, True])
def test_a_supported_or_lost_quantization_is_not_proposed_on_other_kernels_by_this_rule(
    supported: bool,
) -> None:
    found = (
        trial(2, NARROW, AWQ, Outcome.SUPPORTED, 3.3, 3.75)
        if supported
        else replace(SLOW, effect_log=None, effect_se_log=None, outcome=Outcome.INFEASIBLE)
    )
    assert not on_kernels(RulesProposer().propose(view((FASTER, found), NARROW), 60))


@pytest.mark.parametrize(
    "knobs",
    [
        {"serving.dtype": "float16"},
        {"serving.max_model_len": 32768},
        {"serving.max_sequences": 64},
        {"serving.gdn_prefill_backend": "flashinfer"},
        {"serving.prefix_caching": "on"},
    ],
)
def test_what_a_decode_step_has_nothing_to_do_with_is_expected_to_do_nothing(
    knobs: dict[str, KnobValue],
) -> None:
    found = beliefs(()).predict(BASELINE, SPACE.with_change(BASELINE, knobs))
    assert found.log_ratio_mean == 0
    assert found.log_ratio_sd < 0.05


def test_where_quality_is_not_judged_it_holds_nothing_back_and_no_reason_tells_of_it() -> None:
    pair = (BASELINE, AWQ)
    [judged], [alone] = (beliefs((), judges_quality=each).about([pair]) for each in (True, False))
    assert judged.p_quality < 0.9
    assert alone.p_quality == 1
    told = [
        Candidate(1, ("quantization",), -0.3, 0.2, each.p_quality, 0.9, 100.0, judges_quality=judges)
        for each, judges in ((judged, True), (alone, False))
    ]
    reasons = [rank([each]).places[0].reason for each in told]
    assert "quality held with P" in reasons[0]
    assert "quality" not in reasons[1]


def test_the_kernel_that_the_engine_chose_is_not_proposed_by_name() -> None:
    told = replace(view((), AWQ), trials=(), incumbent_runs={"linear_kernel": "MacheteLinearKernel"})
    proposed = {each.candidate[KERNEL] for each in on_kernels(RulesProposer().propose(told, 60))}
    assert "machete" not in proposed
    assert {"marlin", "humming"} <= proposed
    unknown = replace(told, incumbent_runs={})
    assert "machete" in {each.candidate[KERNEL] for each in on_kernels(RulesProposer().propose(unknown, 60))}


def test_another_value_that_shows_the_same_text_is_none_and_more_than_it_is_another() -> None:
    told = replace(
        view((), AWQ), incumbent_runs={"linear_kernel": "MacheteLinearKernel", "dtype": "bfloat16"}
    )
    assert already_runs(told, on("machete"))
    assert not already_runs(told, on("marlin"))
    assert not already_runs(told, SPACE.with_change(on("machete"), {"quantization.group_size": 64}))
    assert not already_runs(told, SPACE.with_change(AWQ, {"serving.dtype": "float16"}))
    assert not already_runs(told, AWQ)


def test_a_number_that_auto_came_to_is_no_other_value() -> None:
    told = replace(view((), AWQ), incumbent_runs={"max_batch_tokens": 8192})
    assert already_runs(told, SPACE.with_change(AWQ, {"serving.max_batch_tokens": 8192}))
    assert not already_runs(told, SPACE.with_change(AWQ, {"serving.max_batch_tokens": 4096}))


def test_what_a_trial_ran_by_the_engines_choice_is_not_proposed_by_name() -> None:
    ran = replace(SLOW, runs={"linear_kernel": "MacheteLinearKernel"})
    told = view((FASTER, ran), NARROW)
    proposed = {each.candidate[KERNEL] for each in on_kernels(RulesProposer().propose(told, 60))}
    assert "machete" not in proposed
    assert {"marlin", "humming"} <= proposed
    assert measured_as(told, on("machete")) == ran
    assert measured_as(told, on("marlin")) is None
    untold = view((FASTER, SLOW), NARROW)
    assert "machete" in {each.candidate[KERNEL] for each in on_kernels(RulesProposer().propose(untold, 60))}
