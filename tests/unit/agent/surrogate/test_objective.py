"""What is expected of the time to the first token, and of requests to their end."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from agent.ranking.ranking import expected_gain
from agent.surrogate.composed import composed
from agent.surrogate.expectation import Expectation
from agent.surrogate.kernel_parts import BESIDE
from agent.surrogate.levers import LeverView
from agent.surrogate.lone_prompt import LonePrompt
from agent.surrogate.objective import (
    CUT_LOG,
    CUT_SD_LOG,
    FIRST,
    PROMPTS_SD_LOG,
    STEPS_SD_LOG,
    UNPACKING_LOG,
    WEIGHTS_SD_LOG,
    first_token_share,
    with_first_token,
)
from agent.surrogate.physics import Physics
from configs.models import load_model_profile
from experiments.measurement.evidence import Metric
from experiments.space.configuration import KnobValue
from experiments.space.loading import load_space
from tests.recorded.vllm_kernels import recorded_parts
from tests.unit.agent.campaigns import COMPILED, PHYSICS, pruned
from tests.unit.agent.campaigns import SPACE as OWN_SPACE

SPACE = load_space("vllm")
BASELINE = SPACE.configuration({})
PARTS = tuple(recorded_parts("bf16"))
STEP_MS = math.fsum(part.time_ms for part in PARTS)
GPU = Physics(
    BASELINE,
    tpot_ms=1.25 * STEP_MS,  # a fifth of it beside the step
    profile=PARTS,
    bandwidth_bytes_per_s=4.2e12,
    serves_packed=True,
    shape=load_model_profile("qwen3.5-9b"),
)
Z_80 = 1.2816
PROFILED = LonePrompt(first_token_ms=70.8, outside_ms=57.2, products_ms=9.3)


def expected(physics: Physics, knobs: dict[str, KnobValue]) -> Expectation:
    view = LeverView.of(SPACE, BASELINE)
    [(lever, setting)] = view.settings(SPACE.configuration(knobs)).items()
    return physics.expect(lever, setting)


def expected_of_own(share: float, *, pruning: bool = False) -> Expectation:
    physics = replace(PHYSICS, first_token_share=share)
    view = LeverView.of(OWN_SPACE, PHYSICS.baseline)
    [(lever, setting)] = view.settings(pruned(1) if pruning else COMPILED).items()
    return physics.expect(lever, setting)


@pytest.mark.parametrize(
    ("objective", "share"),
    [(Metric.TPOT_MS, 0.0), (Metric.ITL_MS, 0.0), (Metric.TTFT_MS, 1.0), (Metric.E2EL_MS, 0.25)],
)
def test_the_first_token_has_its_share_of_the_objective(objective: Metric, share: float) -> None:
    assert first_token_share(objective, 100.0, 3.0, 101) == pytest.approx(share)


def test_nothing_is_shared_where_the_time_to_the_first_token_is_not_known() -> None:
    assert first_token_share(Metric.E2EL_MS, None, 3.0, 101) == 0


def test_narrower_weights_make_a_token_faster_and_may_do_anything_to_the_first() -> None:
    fp8: dict[str, KnobValue] = {"serving.weight_dtype": "fp8"}
    token, whole, first = (expected(replace(GPU, first_token_share=share), fp8) for share in (0.0, 0.25, 1.0))
    assert token.mean_log < whole.mean_log < first.mean_log == pytest.approx(0.0)
    assert first.sd_log == pytest.approx(WEIGHTS_SD_LOG)


def test_parts_share_the_objective_with_the_first_token() -> None:
    a_quarter = replace(GPU, first_token_share=0.25)
    assert math.fsum(a_quarter.parts.values()) == pytest.approx(1)
    assert a_quarter.parts[BESIDE] == pytest.approx(0.75 * GPU.parts[BESIDE])
    assert a_quarter.parts[FIRST] == pytest.approx(0.25)
    assert FIRST not in GPU.parts


def test_how_prompts_are_read_is_open_by_the_time_that_they_take() -> None:
    flashinfer: dict[str, KnobValue] = {"serving.gdn_prefill_backend": "triton"}
    alone = replace(GPU, tpot_ms=STEP_MS)
    spreads = [
        expected(physics, flashinfer).sd_log for physics in (alone, GPU, replace(GPU, first_token_share=1.0))
    ]
    assert spreads == sorted(spreads)
    assert spreads[0] < 0.03
    assert spreads[2] == pytest.approx(PROMPTS_SD_LOG, rel=0.01)
    assert {expected(GPU, flashinfer).mean_log} == {0.0}


def test_what_acts_on_the_whole_step_counts_with_the_rest_of_a_request() -> None:
    token, whole, first = (expected_of_own(share) for share in (0.0, 0.25, 1.0))
    assert math.exp(whole.mean_log) == pytest.approx(0.25 + 0.75 * math.exp(token.mean_log))
    assert (first.mean_log, first.sd_log) == (pytest.approx(0.0), pytest.approx(STEPS_SD_LOG)), (
        "no prompt is read by it"
    )


def test_for_the_first_token_what_decides_how_prompts_are_read_is_worth_most() -> None:
    first = replace(GPU, first_token_share=1.0)
    view = LeverView.of(SPACE, BASELINE)
    found = [
        composed(first, view.settings(SPACE.configuration(knobs)), ())
        for knobs in (
            {"serving.chunked_prefill": "off"},
            {"quantization.method": "awq"},
            {"drafting.method": "mtp"},
        )
    ]
    means = np.array([mean for mean, _ in found])
    chunks, packed, drafts = expected_gain(
        means, np.array([math.hypot(*open_.values()) for _, open_ in found])
    )
    assert chunks > packed
    assert chunks > 2 * drafts
    assert means[1] > 0, "what is unpacked is work more"


@pytest.mark.parametrize(
    ("knobs", "levers", "mean"),
    [
        ({"quantization.method": "awq"}, 2, math.log1p(0.131 * math.expm1(UNPACKING_LOG))),
        ({"serving.weight_dtype": "fp8"}, 1, 0.0),
        ({"serving.dtype": "float16"}, 1, 0.0),
    ],
)
def test_what_multiplies_weights_changes_what_products_take_of_a_profiled_prompt(
    knobs: dict[str, KnobValue], levers: int, mean: float
) -> None:
    """The figures of an H200 (docs/results/h200-campaign-first-token.md): 9.3 of 70.8 ms, 13 %. With AWQ the
    kernel is open too."""
    unknown = replace(GPU, first_token_share=1.0)
    told = replace(unknown, first_token=PROFILED.shares(69.1))
    view = LeverView.of(SPACE, BASELINE)
    settings = view.settings(SPACE.configuration(knobs))
    before, after = (composed(each, settings, view.target(settings)) for each in (unknown, told))
    spreads = [math.hypot(*open_.values()) for _, open_ in (before, after)]
    assert after[0] == pytest.approx(mean, abs=1e-3)
    assert spreads[0] == pytest.approx(WEIGHTS_SD_LOG * math.sqrt(levers), rel=0.02)
    assert spreads[1] == pytest.approx(
        math.hypot(0.131 * WEIGHTS_SD_LOG, 0.869 * STEPS_SD_LOG) * math.sqrt(levers), rel=0.05
    )
    if levers == 2:
        percents = [
            round(100 * math.expm1(mean + z * spread))
            for (mean, _), spread in zip((before, after), spreads, strict=True)
            for z in (-Z_80, 0, Z_80)
        ]
        assert percents == [-23, 11, 59, -8, 1, 11], "as docs/ranking.md says"


def test_a_cache_of_prefixes_finds_nothing_and_may_cut_a_prompt() -> None:
    first = replace(GPU, first_token_share=1.0)
    told = replace(first, first_token=PROFILED.shares(69.1))
    cached: dict[str, KnobValue] = {"serving.prefix_caching": "on"}
    unknown, known, of_a_token = (expected(each, cached) for each in (first, told, GPU))
    assert (unknown.mean_log, unknown.sd_log) == (
        pytest.approx(CUT_LOG),
        pytest.approx(CUT_SD_LOG, rel=0.01),
    )
    assert known.mean_log == pytest.approx(math.log1p(0.5 * 57.2 / 70.8))
    assert of_a_token.mean_log == pytest.approx(math.log1p(GPU.parts[BESIDE] * math.expm1(CUT_LOG)))
    pieces = expected(first, {"serving.chunked_prefill": "off"})
    each = (unknown, known, pieces)
    gains = expected_gain(np.array([one.mean_log for one in each]), np.array([one.sd_log for one in each]))
    assert gains[2] > 2 * max(gains[:2]), "what decides how prompts are read comes first"


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_what_falls_away_with_a_drafter_counts_with_the_steps_alone(share: float) -> None:
    """A baseline that drafts: what it stops to do takes knobs of other levers along, which are unknown of a
    step and nothing of the first token."""
    drafts = SPACE.configuration({"drafting.method": "mtp"})
    view = LeverView.of(SPACE, drafts)
    settings = view.settings(SPACE.configuration({}))
    gone = [lever for lever, setting in settings.items() if all(value is None for _, value in setting)]
    assert gone
    of_steps = replace(GPU, baseline=drafts)
    for lever in gone:
        whole = replace(of_steps, first_token_share=share).expect(lever, settings[lever])
        alone = of_steps.expect(lever, settings[lever])
        assert whole.sd_log == pytest.approx((1 - share) * alone.sd_log)


def test_a_lone_request_waits_for_nobodys_prompt() -> None:
    """What it takes beside its step is no prompt, so how they are read changes nothing of its tokens."""
    told = replace(GPU, one_at_once=True, first_token=PROFILED.shares(69.1))
    for knobs in ({"serving.prefix_caching": "on"}, {"serving.gdn_prefill_backend": "triton"}):
        found = expected(told, dict[str, KnobValue](knobs))
        assert found.mean_log == 0
        assert found.sd_log < 0.03


def test_removed_layers_are_missed_in_the_first_token_too() -> None:
    assert expected_of_own(0.0, pruning=True) == expected_of_own(1.0, pruning=True)


@pytest.mark.parametrize(("share", "saved"), [(0.18, -0.11), (0.42, -0.078)])
def test_a_step_saves_the_less_of_a_request_the_more_of_it_the_first_token_takes(
    share: float, saved: float
) -> None:
    """The example of docs/ranking.md, First tokens and whole requests."""
    mean, _, _ = with_first_token((math.log(0.866), 0.0), (0.0, 0.0), share)
    assert math.exp(mean) - 1 == pytest.approx(saved, abs=5e-4)
