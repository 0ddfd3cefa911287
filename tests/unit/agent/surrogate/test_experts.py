"""What is expected of experts: fewer bits save their bytes, a named kernel does nothing to them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.campaign.known.measured import lone_prompt_of
from agent.surrogate.beliefs import Beliefs
from agent.surrogate.drafting import DraftingCost
from agent.surrogate.kernel_parts import (
    BESIDE,
    EXPERTS,
    HEAD,
    PACKED_EXPERTS_BANDWIDTH_SHARE,
    PACKED_EXPERTS_MS,
    PRODUCTS,
    REST,
    KernelParts,
    by_part,
    packed,
)
from agent.surrogate.lone_prompt import FirstTokenShares, LonePrompt
from agent.surrogate.objective import EXPERTS_SD_LOG, UNPACKING_LOG, of_first_token
from agent.surrogate.physics import Physics
from agent.surrogate.timed_kernels import TimedEffect
from agent.surrogate.timed_products import KERNEL_SD_LOG
from agent.surrogate.weight_bytes import WeightBytesBelief, packed_shares, step_weight_bytes
from configs.models import load_model_profile
from experiments.engines.port import PartTime
from experiments.engines.stored_bytes import bits_per_weight
from experiments.measurement.judging import Outcome
from experiments.measurement.plan import Margins
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.loading import load_space
from tests.unit.agent.four_levers import trial
from tests.unit.agent.mixture_profile import BANDWIDTH, MIXTURE, PARTS

SPACE = load_space("vllm")
BASELINE = SPACE.configuration({})
NINE = load_model_profile("qwen3.5-9b")
DENSE = tuple(part for part in PARTS if part.kind != EXPERTS)
KNOBS: dict[str, KnobValue] = {"quantization.method": "rtn", "quantization.group_size": 128}
W4 = SPACE.configuration(KNOBS)
SETTING = tuple((knob, value) for knob, value in W4.items() if knob.startswith("quantization."))


def physics(profile: tuple[PartTime, ...] = PARTS, **told: object) -> Physics:
    return Physics(
        BASELINE,
        2.5,
        profile,
        bandwidth_bytes_per_s=BANDWIDTH,
        serves_packed=True,
        **{"shape": MIXTURE, **told},  # type: ignore[arg-type]
    )


def parts(profile: tuple[PartTime, ...] = PARTS) -> KernelParts:
    found = KernelParts.of(profile, BANDWIDTH)
    assert found is not None
    return found


def set_to(configuration: Configuration, **knobs: KnobValue) -> Configuration:
    named = {f"quantization.{name}": value for name, value in knobs.items()}
    return SPACE.with_change(configuration, named)


def test_packed_experts_save_their_own_bytes_beside_those_of_products() -> None:
    quantized = SPACE.configuration(KNOBS)
    expected = physics().expect("quantization", SETTING)
    assert set(expected.parts) == {PRODUCTS, EXPERTS, REST, BESIDE}
    bits = bits_per_weight(4, 128, symmetric=True)
    at_floor, longer = 0.5 / 0.8, MIXTURE.layers * PACKED_EXPERTS_MS / 0.8
    assert math.exp(expected.parts[EXPERTS].mean_log) == pytest.approx(
        1 - at_floor * (1 - bits / 16 / PACKED_EXPERTS_BANDWIDTH_SHARE) + longer
    )
    assert expected.mean_log < physics(DENSE).expect("quantization", SETTING).mean_log
    predicted = Beliefs.learn(SPACE, physics(), (), Margins()).predict(BASELINE, quantized)
    assert predicted.log_ratio_mean == pytest.approx(expected.mean_log)


def test_what_packing_does_to_experts_is_less_known_than_what_it_does_to_products() -> None:
    shares = packed_shares(MIXTURE, W4)
    assert shares is not None
    found = packed(parts(), KNOBS, shares)
    spread = {part: math.hypot(*effect.open.values()) for part, effect in found.items()}
    assert spread[EXPERTS] > 0.3 > spread[PRODUCTS]
    assert not set(found[EXPERTS].open) & set(found[PRODUCTS].open), "one does not speak for the other"


ALONE_US = {1: (19.1, 17.9), 4: (60.4, 29.6), 16: (159.0, 69.3)}
"""What a layer's two products took alone on an H200 by tokens: in 16 bits, and packed by Marlin's kernel."""


@pytest.mark.parametrize("tokens", ALONE_US)
def test_packed_experts_are_expected_as_marlin_s_took_alone_within_what_is_open_of_them(tokens: int) -> None:
    shares = packed_shares(MIXTURE, W4)
    assert shares is not None
    assert MIXTURE.experts is not None
    wide, narrow = ALONE_US[tokens]
    weights = 3 * MIXTURE.hidden * MIXTURE.experts.intermediate
    read = 2 * weights * MIXTURE.layers * MIXTURE.experts.read(tokens)
    step = (
        PartTime("experts", "experts", MIXTURE.layers * wide / 1e3, round(read)),
        PartTime("outside", "outside", 0.5, 0),
    )
    found = KernelParts.of(step, 4.26e12)
    assert found is not None
    expected = packed(found, KNOBS, shares, experts_layers=MIXTURE.layers)[EXPERTS]
    assert expected.mean_log == pytest.approx(math.log(narrow / wide), abs=KERNEL_SD_LOG)


def test_without_layers_or_time_packed_experts_are_expected_by_their_bytes_alone() -> None:
    shares = packed_shares(MIXTURE, W4)
    assert shares is not None
    unknown = packed(parts(), KNOBS, shares)[EXPERTS]
    assert math.exp(unknown.mean_log) == pytest.approx(1 - 0.5 / 0.8 * (1 - shares[EXPERTS] / 0.5))
    idle = parts((PartTime("experts", "experts", 0.0, 0), *DENSE))
    assert packed(idle, KNOBS, shares, experts_layers=MIXTURE.layers)[EXPERTS].mean_log == 0


def test_of_a_pruned_baseline_s_experts_as_many_layers_are_counted_as_it_has() -> None:
    pruned = SPACE.configuration({"pruning.method": "depth", "pruning.layers_removed": 8})
    whole, less = (
        replace(physics(), baseline=each).expect("quantization", SETTING).parts[EXPERTS]
        for each in (BASELINE, pruned)
    )
    assert math.exp(whole.mean_log) - math.exp(less.mean_log) == pytest.approx(8 * PACKED_EXPERTS_MS / 0.8)


@given(st.sampled_from(["out_proj_bits", "keep", "group_size", "symmetric"]))
def test_only_their_own_format_is_open_of_experts(name: str) -> None:
    knob = f"quantization.{name}"
    shares = packed_shares(MIXTURE, W4)
    assert shares is not None
    values: dict[str, KnobValue] = {
        "out_proj_bits": 8,
        "keep": "attention",
        "group_size": 64,
        "symmetric": False,
    }
    found = packed(parts(), {**KNOBS, knob: values[name]}, shares)
    named = any(knob in each for each in found[EXPERTS].open)
    assert named == (name in ("group_size", "symmetric"))
    assert any(knob in each for each in found[PRODUCTS].open)


def test_kernels_timed_alone_say_nothing_of_experts() -> None:
    shares = packed_shares(MIXTURE, W4)
    assert shares is not None
    timed = {PRODUCTS: TimedEffect(-0.7, 0.08)}
    plain, told = (packed(parts(), KNOBS, shares, each) for each in ({}, timed))
    assert told[PRODUCTS].mean_log == -0.7
    assert told[EXPERTS] == plain[EXPERTS]


def test_a_named_kernel_does_nothing_to_experts_and_is_as_open_of_products_as_any() -> None:
    setting = (("serving.linear_backend", "marlin"),)
    found = physics().expect("kernel", setting, (("quantization", SETTING),))
    assert set(found.parts) == {PRODUCTS, REST, BESIDE}
    assert all(effect.mean_log == 0 for effect in found.parts.values())
    alike = {
        kernel: physics().expect("kernel", (("serving.linear_backend", kernel),))
        for kernel in ("marlin", "humming", "triton", "machete")
    }
    assert len({(each.mean_log, each.sd_log) for each in alike.values()}) == 1


def test_8_bit_floats_halve_the_floor_of_experts_too() -> None:
    found = by_part(parts(), "weight_dtype", {"serving.weight_dtype": "fp8"})
    assert found is not None
    assert set(found) == {PRODUCTS, EXPERTS, REST, BESIDE}
    assert math.exp(found[EXPERTS].mean_log) == pytest.approx(1 - 0.5 / 0.8 / 2)
    assert found[EXPERTS].open
    dense = by_part(parts(DENSE), "weight_dtype", {"serving.weight_dtype": "fp8"})
    assert dense is not None
    assert set(dense) == {PRODUCTS, REST, BESIDE}


def test_of_a_dense_model_nothing_is_said_of_experts() -> None:
    for shape in (NINE, None):
        expected = physics(DENSE, shape=shape).expect("quantization", SETTING)
        assert set(expected.parts) == {PRODUCTS, REST, BESIDE}
        shares = packed_shares(shape, W4)
        assert shares is not None
        assert shares[PRODUCTS] == pytest.approx(bits_per_weight(4, 128, symmetric=True) / 16, abs=0.01)


def test_routers_and_gates_keep_16_bits_and_experts_are_packed_whole() -> None:
    shares = packed_shares(MIXTURE, W4)
    assert shares is not None
    bits = bits_per_weight(4, 128, symmetric=True)
    assert shares[EXPERTS] == pytest.approx(bits / 16)
    assert bits / 16 + 0.01 < shares[PRODUCTS] < 0.3, "routers and gates are among the products"
    assert HEAD not in shares
    with_head = packed_shares(MIXTURE, set_to(W4, lm_head="quantized"))
    assert with_head == {**shares, HEAD: bits / 16}
    assert packed_shares(MIXTURE, BASELINE) is None
    edges = packed_shares(MIXTURE, set_to(W4, keep="edges"))
    assert edges is not None
    assert edges[EXPERTS] == pytest.approx((38 * bits / 16 + 2) / 40)
    attention = packed_shares(MIXTURE, set_to(W4, keep="attention"))
    assert attention is not None
    assert attention[EXPERTS] == shares[EXPERTS]
    assert attention[PRODUCTS] > shares[PRODUCTS]


def test_without_a_profile_by_kernels_a_step_saves_the_bytes_of_all_that_are_under_way() -> None:
    """Two requests at once with a draft each: four rows."""
    drafted = SPACE.configuration({"drafting.method": "mtp", "drafting.draft_tokens": 1})
    found = Physics(drafted, 2.5, bandwidth_bytes_per_s=1.0, shape=MIXTURE, serves_packed=True, requests=2)
    expected = found.expect("quantization", SETTING)
    four = [step_weight_bytes(MIXTURE, each, 4).mean for each in (drafted, W4)]
    floor = found.floor_ms / found.tpot_ms
    assert math.exp(expected.mean_log) == pytest.approx(1 - floor + floor * four[1] / four[0])
    one = [step_weight_bytes(MIXTURE, each).mean for each in (drafted, W4)]
    assert four[1] / four[0] < one[1] / one[0], "experts are more of it"


def test_without_a_shape_experts_are_of_what_a_profile_has_that_is_packed() -> None:
    with_experts = WeightBytesBelief(None, PARTS).predict(BASELINE, W4).log_ratio_mean
    whole = sum(part.weight_bytes for part in PARTS)
    saved = (2e9 + 1.8e9) * (1 - bits_per_weight(4, 128, symmetric=True) / 16)
    assert math.exp(with_experts) == pytest.approx(1 - saved / whole)


def test_a_profiled_candidate_tells_of_its_experts_apart() -> None:
    """They took twice what was expected: then they are expected to be slow packed otherwise too."""
    slow = tuple(replace(part, time_ms=2 * part.time_ms) if part.kind == EXPERTS else part for part in PARTS)
    told = replace(trial(W4, Outcome.INCONCLUSIVE, None, control=BASELINE), profile=slow)
    before, after = (Beliefs.learn(SPACE, physics(), each, Margins()) for each in ((), (told,)))
    other = set_to(W4, group_size=64)
    assert (
        after.predict(BASELINE, other).log_ratio_mean > before.predict(BASELINE, other).log_ratio_mean + 0.1
    )


def test_a_token_more_costs_experts_as_little_arithmetic_as_products() -> None:
    layers = MIXTURE.layer_types
    as_products = tuple(replace(part, kind="gemm") if part.kind == EXPERTS else part for part in PARTS)
    assert DraftingCost.of(PARTS, layers) == DraftingCost.of(as_products, layers)


def test_a_lone_prompts_experts_are_changed_by_what_changes_weights_and_by_no_named_kernel() -> None:
    prompt = [PartTime("experts", "experts", 30.0, 0), PartTime("qkv_proj", "gemm", 10.0, 0)]
    told = {"parts": [vars(each) for each in (*prompt, PartTime("outside", "outside", 10.0, 0))]}
    found = lone_prompt_of({**told, "first_token_ms": 50.0})
    assert found == LonePrompt(50.0, 10.0, 10.0, 30.0)
    assert "products take 10.0 and experts 30.0 of the 50.0 ms" in found.told
    assert "products take 10.0 of the 50.0 ms" in replace(found, experts_ms=0.0).told
    shares = found.shares(60.0)
    assert shares == FirstTokenShares(10 / 60, 10 / 60, 30 / 60)
    mean, wide = of_first_token("quantization", True, shares)
    assert mean == pytest.approx(math.log1p(10 / 60 * math.expm1(UNPACKING_LOG)))
    assert wide == pytest.approx(EXPERTS_SD_LOG / 2, rel=0.05), "they are half of it"
    told = of_first_token("kernel", True, shares)
    assert told[1] < 0.05, "of the products' part alone"
    assert told[1] == pytest.approx(of_first_token("kernel", True, replace(shares, experts=0.0))[1], rel=0.2)


@pytest.mark.parametrize("shares", [FirstTokenShares(0.0, 0.0, 1.0), FirstTokenShares(0.1, 0.0, 1.02)])
def test_experts_that_were_timed_longer_than_the_whole_prompt_are_all_of_it(shares: FirstTokenShares) -> None:
    mean, wide = of_first_token("quantization", True, shares)
    assert mean == pytest.approx(0.0)
    assert wide == pytest.approx(EXPERTS_SD_LOG)
