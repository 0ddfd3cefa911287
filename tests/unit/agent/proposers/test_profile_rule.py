"""What the profile by kernels says decides what is proposed first, and names no kernel as better."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest

from agent.proposers.port import CampaignView, Draft
from agent.proposers.profile import ProfileProposer
from agent.proposers.profile_rule import by_profile, head_words
from agent.proposers.rules import RulesProposer
from agent.surrogate.beliefs import Beliefs
from agent.surrogate.drafting import COST_SD_SHARE, DraftingCost
from agent.surrogate.kernel_parts import BESIDE, KernelParts, by_part, of_whole
from agent.surrogate.physics import Physics
from configs.models import load_model_profile
from experiments.engines.port import PartTime
from experiments.measurement.plan import Margins
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.loading import load_space
from tests.recorded.vllm_kernels import PROFILED, recorded_parts
from tests.unit.agent import campaigns
from tests.unit.agent.mixture_profile import BANDWIDTH as MIXTURE_BANDWIDTH
from tests.unit.agent.mixture_profile import PARTS as MIXTURE_PARTS

SPACE = load_space("vllm")
BASELINE = SPACE.configuration({})
QUANTIZED = SPACE.with_change(BASELINE, {"quantization.method": "awq", "quantization.group_size": 128})
BANDWIDTH = float(PROFILED["bf16"]["copy_bytes_per_s"])
KERNELS = ("conch", "exllama", "humming", "machete", "marlin", "triton")


def view(incumbent: Configuration = BASELINE, profile: str = "bf16", own: str | None = None) -> CampaignView:
    parts, best = tuple(recorded_parts(profile)), tuple(recorded_parts(own)) if own else ()
    physics = Physics(
        baseline=BASELINE,
        tpot_ms=5.36,
        profile=parts,
        bandwidth_bytes_per_s=BANDWIDTH,
        shape=load_model_profile("qwen3.5-9b"),
        serves_packed=True,
        incumbent_profile=best,
    )
    predict = Beliefs.learn(SPACE, physics, (), Margins()).predict
    return replace(
        campaigns.view(),
        space=SPACE,
        baseline=BASELINE,
        incumbent=incumbent,
        trials=(),
        taken=frozenset(),
        profile=parts,
        incumbent_profile=best,
        bandwidth_bytes_per_s=BANDWIDTH,
        serves_packed=True,
        predict=predict,
        predict_on=predict,
    )


def spread(told: CampaignView, knobs: Mapping[str, KnobValue]) -> tuple[float, float]:
    found = told.predict(told.incumbent, SPACE.with_change(told.incumbent, knobs))
    return found.log_ratio_mean, found.log_ratio_sd


def of_knob(drafts: list[Draft], knob: str, incumbent: Configuration) -> list[Draft]:
    return [each for each in drafts if [c.knob for c in incumbent.changes_to(each.candidate)] == [knob]]


def test_every_kernel_is_expected_alike_and_more_widely_the_further_products_are_from_the_bandwidth() -> None:
    told = {own: view(QUANTIZED, own=own) for own in ("marlin", "machete")}
    by_kernel = {
        own: {spread(each, {"serving.linear_backend": kernel}) for kernel in KERNELS}
        for own, each in told.items()
    }
    assert all(len(found) == 1 for found in by_kernel.values()), "no kernel is told from another"
    [(mean, marlin)], [(_, machete)] = by_kernel["marlin"], by_kernel["machete"]
    assert mean == 0
    parts = {own: KernelParts.of(recorded_parts(own), BANDWIDTH) for own in ("marlin", "machete", "bf16")}
    above = {own: each.above_share("gemm") for own, each in parts.items() if each is not None}
    assert above["bf16"] < 0.12 < 0.3 < above["marlin"]
    assert marlin == pytest.approx(0.5 * above["marlin"], rel=0.2)
    assert machete > 0.5 * above["bf16"]


def test_a_quantized_incumbent_s_own_profile_speaks_for_other_kernels() -> None:
    drafts = RulesProposer().propose(view(QUANTIZED, own="marlin"), 60)
    kernels = of_knob(drafts, "serving.linear_backend", QUANTIZED)
    assert {each.candidate["serving.linear_backend"] for each in kernels} == set(KERNELS)
    for each in kernels:
        assert "of the bandwidth" in each.rationale
        assert "not known before it is measured" in each.rationale
    told = {each.rationale.partition("Surrogate")[0] for each in kernels}
    assert len(told) == 1, "the reason is the same for every kernel"


def of_experts(incumbent: Configuration) -> CampaignView:
    """A view whose step has experts."""
    return replace(view(incumbent), profile=MIXTURE_PARTS, bandwidth_bytes_per_s=MIXTURE_BANDWIDTH)


def test_a_reason_tells_experts_apart_and_that_no_kernel_is_named_for_them() -> None:
    told, mixture = view(QUANTIZED), of_experts(QUANTIZED)
    for each, says in ((mixture, True), (told, False)):
        reasons = {idea.rationale for idea in by_profile(each, "kernel")}
        assert len(reasons) == 1, "the reason is the same for every kernel"
        (reason,) = reasons
        assert ("Experts, which have kernels of their own, take 32 % of it." in reason) is says
        assert reason.startswith("Products of the layers take ")
    assert "Products of the layers take 28 % of the step" in by_profile(mixture, "kernel")[0].rationale


def test_8_bit_floats_are_told_what_products_and_experts_take_together() -> None:
    (narrow,) = by_profile(of_experts(BASELINE), "weight_dtype")
    assert narrow.rationale == (
        "Products of the layers and experts take 60 % of the step, and their bytes at full bandwidth would "
        "take 38 % of it: a type half as wide saves half of that at most."
    )
    (dense,) = by_profile(view(), "weight_dtype")
    assert dense.rationale.startswith("Products of the layers take ")


def test_quantization_is_told_what_experts_take() -> None:
    assert "products of the layers 28 % at 64 %, experts 32 % at 62 %. " in head_words(of_experts(BASELINE))
    assert "experts" not in head_words(view())


def test_quantization_is_told_what_the_head_takes() -> None:
    drafts = RulesProposer().propose(view(), 60)
    quantized = [each for each in drafts if each.candidate.get("quantization.method") == "awq"]
    assert quantized
    assert all("the output head takes 9.2 % of the step" in each.rationale for each in quantized)
    assert all(each.metric is None or each.metric.value == "tpot_ms" for each in quantized)


def test_leaving_graphs_out_is_no_gain_where_kernels_are_short_and_putting_them_in_is_one() -> None:
    parts = KernelParts.of(recorded_parts("marlin"), BANDWIDTH)
    assert parts is not None
    eager, _ = of_whole(parts, "graphs", {"serving.graph_mode": "eager"}, BASELINE) or (0, 0)
    assert eager > 0, "510 launches take the processor longer than the step takes"
    launched = [
        *recorded_parts("marlin")[:-1],
        PartTime("outside", "outside", 4.0, 0),
    ]
    slow = KernelParts.of(launched, BANDWIDTH)
    assert slow is not None
    graphs, sd = of_whole(
        slow, "graphs", {"serving.graph_mode": "full"}, {**BASELINE, "serving.graph_mode": "eager"}
    ) or (0, 0)
    assert graphs < -0.3
    assert 0 < sd < 0.5


def test_graph_modes_that_replay_a_step_of_decoding_whole_do_the_same_with_it() -> None:
    parts = KernelParts.of(
        [*recorded_parts("marlin")[:-1], PartTime("outside", "outside", 4.0, 0)], BANDWIDTH
    )
    assert parts is not None
    auto = {**BASELINE, "serving.graph_mode": "auto"}

    def expected(mode: str, ran: str, layers: int = 0) -> tuple[float, float]:
        found = of_whole(parts, "graphs", {"serving.graph_mode": mode}, auto, {"graph_mode": ran}, layers)
        assert found is not None
        return found

    assert expected("full", "full_and_piecewise") == (0.0, pytest.approx(0.02))
    for mode, ran in (("piecewise", "full_and_piecewise"), ("full", "")):
        mean, sd = expected(mode, ran)
        assert mean == 0 < 0.05 < sd, "of how many layers, or what the engine chose, was not told"
    assert expected("piecewise", "full_and_piecewise", 32)[0] > expected("piecewise", "full", 16)[0] >= 0
    assert expected("full", "piecewise")[0] < -0.3, "what lies outside kernels goes"


def with_outside(share: float) -> tuple[PartTime, ...]:
    """A recorded step of which no kernel runs in this share."""
    kernels = [part for part in recorded_parts("bf16") if part.kind != "outside"]
    busy_ms = math.fsum(part.time_ms for part in kernels)
    return (*kernels, PartTime("outside", "outside", busy_ms * share / (1 - share), 0))


def test_steps_that_are_not_scheduled_ahead_are_expected_to_lay_the_processor_s_work_open() -> None:
    parts = KernelParts.of(with_outside(0.0), BANDWIDTH)
    assert parts is not None
    off = {"serving.async_scheduling": "off"}
    found = of_whole(parts, "scheduling", off, BASELINE, {"async_scheduling": "on"})
    assert found is not None
    assert found[0] == pytest.approx(math.log(1 + 2.3 / parts.step_ms))
    assert 0 < found[1] < found[0]
    assert of_whole(parts, "scheduling", off, BASELINE, {"async_scheduling": "off"}) is None, (
        "it changes nothing"
    )
    assert of_whole(parts, "scheduling", off, BASELINE) is None, "what the engine chose was not told"
    on = {"serving.async_scheduling": "on"}
    assert of_whole(parts, "scheduling", on, BASELINE, {"async_scheduling": "off"}) is None


@pytest.mark.parametrize(("outside", "brought"), [(0.0, False), (0.02, False), (0.2, True)])
def test_the_profile_brings_what_hides_time_outside_kernels_where_there_is_enough_of_it(
    outside: float, brought: bool
) -> None:
    told = replace(
        view(), profile=with_outside(outside), incumbent_runs={"async_scheduling": "off"}, min_effect=0.03
    )
    drafts = ProfileProposer().propose(told, 60)
    for knob in ("serving.graph_mode", "serving.async_scheduling"):
        assert bool(of_knob(drafts, knob, BASELINE)) is brought, knob


@pytest.mark.parametrize(
    ("ran", "brought"),
    [
        ("full_and_piecewise", ()),
        ("full", ()),
        ("piecewise", ("full", "full_and_piecewise", "full_decode_only")),
        ("eager", ("full", "full_and_piecewise", "full_decode_only", "piecewise")),
        (None, ("full", "full_and_piecewise", "full_decode_only", "piecewise")),
    ],
)
def test_the_profile_brings_graphs_that_may_need_fewer_launches_than_those_that_run(
    ran: str | None, brought: tuple[str, ...]
) -> None:
    told = replace(
        view(), profile=with_outside(0.2), incumbent_runs={} if ran is None else {"graph_mode": ran}
    )
    drafts = [each for each in ProfileProposer().propose(told, 60) if each.lever == "graphs"]
    assert {str(each.candidate["serving.graph_mode"]) for each in drafts} == set(brought)


def test_the_profile_never_brings_what_schedules_no_step_ahead() -> None:
    told = replace(view(), profile=with_outside(0.2), incumbent_runs={"async_scheduling": "on"})
    drafts = of_knob(ProfileProposer().propose(told, 60), "serving.async_scheduling", BASELINE)
    assert not drafts, "it would lay open what is hidden now"


def test_a_kernel_acts_on_the_output_head_where_that_is_packed() -> None:
    parts = KernelParts.of(recorded_parts("marlin"), BANDWIDTH)
    assert parts is not None
    chosen = {"serving.linear_backend": "humming"}
    assert "lm_head" not in (by_part(parts, "kernel", chosen) or {})
    assert "lm_head" in (by_part(parts, "kernel", chosen, packs_head=True) or {})


def test_a_lever_that_acts_on_little_is_expected_to_do_little() -> None:
    parts = KernelParts.of(recorded_parts("bf16"), BANDWIDTH)
    assert parts is not None
    kv = by_part(parts, "kv_cache", {"serving.kv_cache_dtype": "fp8_e4m3"})
    narrow = by_part(parts, "weight_dtype", {"serving.weight_dtype": "fp8"})
    assert kv is not None
    assert set(kv) == {"attention", BESIDE}
    assert narrow is not None
    at_floor = parts.floor_ms["gemm"] / parts.time_ms["gemm"]
    assert math.exp(narrow["gemm"].mean_log) == pytest.approx(1 - at_floor / 2)
    assert by_part(parts, "weight_dtype", {"serving.weight_dtype": None}) == {}, (
        "packed weights have their own"
    )
    assert by_part(parts, "unheard of", {}) is None
    assert of_whole(parts, "unheard of", {}, BASELINE) is None


def test_without_kernels_or_a_bandwidth_nothing_is_read_from_the_profile() -> None:
    assert KernelParts.of(campaigns.PROFILE, 1e10) is None
    assert KernelParts.of(recorded_parts("bf16"), None) is None
    assert KernelParts.of((), 1e10) is None


def test_what_drafting_costs_follows_from_the_kernels_and_is_near_what_an_h200_took() -> None:
    """Machete's 4-bit step of the 9B shape: 4.33 to 4.36 ms alone, 5.58 ms with MTP and one draft token."""
    parts = [part for part in recorded_parts("machete") if part.kind != "outside"]
    alone_ms = sum(part.time_ms for part in parts)
    layers = ("linear_attention",) * 24 + ("full_attention",) * 8
    cost = DraftingCost.of([*parts, PartTime("outside", "outside", 4.35 - alone_ms, 0)], layers)
    measured, step = 5.58 / 4.35, cost.step("mtp", 1)
    assert abs(measured - step) < COST_SD_SHARE * (step - 1)
    assert cost.mtp_token > 0.49 / 4.35, "the head that it shares is read once more"
