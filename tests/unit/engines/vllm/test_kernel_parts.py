"""Kernels are put to the parts of the model by name and order, and none is lost."""

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.engines.port import PartTime
from experiments.engines.vllm.kernel_parts import Family, family_of, kernel_times, parts_of_step, typical
from experiments.engines.vllm.kernel_steps import Kernel, Region
from experiments.engines.vllm.part_times import parts_of
from experiments.engines.vllm.profile import cache_bytes
from tests.recorded import vllm_kernels as recorded_kernels
from tests.recorded.vllm_kernels import PROFILED, recorded_parts

NAMES = {
    "void marlin::Marlin<__nv_bfloat16, 4, 256, 1, 8, 8, true, 4, 8, false>(int4 const*)": Family.GEMM,
    "nvjet_tst_64x8_64x16_4x1_v_bz_TNT": Family.GEMM,
    "void gemv2T_kernel_val<int, int, __nv_bfloat16, float, float, 128>(cublasGemvParams)": Family.GEMM,
    "void cutlass::device_kernel<vllm::cutlass_3x_gemm_fp8_blockwise<cutlass::half_t>>()": Family.GEMM,
    "void cutlass::device_kernel<machete::MacheteKernelTemplate<cutlass::bfloat16_t>>()": Family.GEMM,
    "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float>()": Family.GEMM_END,
    "fused_recurrent_gated_delta_rule_packed_decode_kernel": Family.GDN_STATE,
    "fused_sigmoid_gating_delta_rule_update_kernel": Family.GDN_STATE,
    "_causal_conv1d_update_kernel": Family.CONV1D,
    "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<>>>()": Family.ATTENTION,
    "void cutlass::device_kernel<flash::FlashAttnFwdCombine<cute::tuple<>>>()": Family.ATTENTION,
    "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16>()": Family.ATTENTION,
    "kernel_unified_attention": Family.ATTENTION,
    "triton_red_fused__to_copy_add_mean_mm_mul_pow_rsqrt_t_3": Family.SMALL,
    "triton_poi_fused_mul_silu_slice_1": Family.SMALL,
    "triton_tem_fused_mm_2": Family.GEMM,
    "void vllm::act_and_mul_kernel<c10::BFloat16>()": Family.SMALL,
    "void vllm::dynamic_per_token_scaled_fp8_quant_kernel_strided<c10::BFloat16>()": Family.SMALL,
    "void vllm::absmax_reduction_flat<c10::BFloat16, c10::Float8_e4m3fn>(float*)": Family.SMALL,
    "_fused_qk_rmsnorm_rope_gate_kernel": Family.SMALL,
    "_layer_norm_fwd_1pass_kernel": Family.SMALL,
    "Memcpy HtoD (Pinned -> Device)": Family.SMALL,
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>>()": Family.SMALL,
    "_C::weight_packed_linear": Family.GEMM,
    "fused_moe_kernel": Family.EXPERTS,
    "void vllm::moe::topkGating<8, 256, 4, 16, 32, int, __nv_bfloat16>()": Family.EXPERTS,
    "void vllm::moe::moe_align_block_size_kernel<int>()": Family.EXPERTS,
    "void marlin_moe_wna16::Marlin<__nv_bfloat16, 4, 256, 1, 8, 8>()": Family.EXPERTS,
    "fused_moe_kernel_gptq_awq": Family.EXPERTS,
    "batched_triton_kernel": Family.EXPERTS,
    "moe_fused_mul_sum_kernel": Family.EXPERTS,
    "void cutlass::device_kernel<cutlass::gemm::GemmUniversal<GroupProblemShape<>>>()": Family.EXPERTS,
    "void humming<MmaOpClass, Shape<0u, 2048u, 512u>, Shape<8u, 128u, 256u>>()": Family.GEMM,
    "void process_input_kernel<Config, TuningConfig, (ProcessInputQuantizationPhase)0>()": Family.SMALL,
    "void tensorrt_llm::kernels::cutlass_kernels::expandInputRowsKernel<>()": Family.EXPERTS,
    "void tensorrt_llm::kernels::cutlass_kernels::doActivationKernel<>()": Family.SMALL,
    "get_aligned_state_indices_multi_group_kernel": Family.SMALL,
    "preprocess_mamba_align_fused_kernel": Family.SMALL,
    "vllm::cpu_gdn_attention_core": Family.GDN_STATE,
    "a_kernel_that_nobody_knows": Family.OTHER,
}


@pytest.mark.parametrize("name", NAMES)
def test_the_family_of_a_kernel_is_told_by_its_name(name: str) -> None:
    assert family_of(name) is NAMES[name]


def step(*kernels: tuple[str, Region]) -> tuple[Kernel, ...]:
    return tuple(Kernel(name, region, 10.0 * at, 2.0) for at, (name, region) in enumerate(kernels))


LAYER = (
    ("triton_red_fused_norm", Region.FORWARD),
    ("nvjet_a", Region.FORWARD),
    ("gemv", Region.FORWARD),
    ("cublasLt::splitKreduce_kernel", Region.FORWARD),
    ("_causal_conv1d_update_kernel", Region.FORWARD),
    ("fused_recurrent_gated_delta_rule_packed_decode_kernel", Region.FORWARD),
    ("nvjet_b", Region.FORWARD),
    ("never_seen", Region.FORWARD),
)
REST = (
    ("nvjet_a", Region.HEAD),
    ("reduce_kernel", Region.SAMPLING),
    ("nvjet_a", Region.DRAFTING),
    ("Memcpy DtoH", Region.BETWEEN),
)


def test_as_many_products_as_linear_layers_are_theirs_in_turn() -> None:
    assert parts_of_step(step(*LAYER, *REST), ["in_proj_qkvz", "in_proj_ba", "out_proj"]) == [
        *("small", "in_proj_qkvz", "in_proj_ba", "in_proj_ba", "conv1d", "gdn_state", "out_proj", "other"),
        *("lm_head", "sampling", "draft", "sampling"),
    ]


def test_where_the_count_differs_only_what_the_convolution_tells_is_told() -> None:
    assert parts_of_step(step(*LAYER), ["in_proj_qkvz", "in_proj_ba"]) == [
        *("small", "layers", "in_proj_ba", "in_proj_ba", "conv1d", "gdn_state", "layers", "other"),
    ]


MIXTURE = json.loads(
    (Path(recorded_kernels.__file__).parent / "vllm_h200_mixture_4_bits.json").read_text(encoding="utf-8")
)


def of_a_mixture() -> list[tuple[str, str]]:
    """The kernels of four layers with packed experts, each with its part."""
    kernels = tuple(
        Kernel(MIXTURE["names"][name], Region.FORWARD, start_us, own_us)
        for name, start_us, own_us in MIXTURE["rows"]
    )
    parts = parts_of_step(kernels, MIXTURE["linears"])
    return [(kernel.name, part) for kernel, part in zip(kernels, parts, strict=True)]


def test_products_of_experts_are_told_from_others_by_kernels_of_the_same_name() -> None:
    found = [(name, part) for name, part in of_a_mixture() if "humming" in name]
    # only experts were computed in blocks that are so deep
    assert [part == "experts" for _, part in found] == ["Shape<8u, 128u, 256u>" in name for name, _ in found]
    assert sum(part == "experts" for _, part in found) == 2 * 4


def test_beside_packed_experts_every_other_product_has_its_linear_layer() -> None:
    parts = Counter(part for name, part in of_a_mixture() if family_of(name) is Family.GEMM)
    assert parts == {"experts": 8, **Counter(MIXTURE["linears"])}
    assert {name[:30] for name, part in of_a_mixture() if part == "in_proj_ba"} == {
        "nvjet_sm90_tst_64x8_64x16_1x1_"
    }


EXPERTS_LAYER = (
    ("nvjet_a", Region.FORWARD),
    ("topkGating", Region.FORWARD),
    ("void humming<a>", Region.FORWARD),
    ("void humming<b>", Region.FORWARD),
    ("moe_fused_mul_sum_kernel", Region.FORWARD),
)


@pytest.mark.parametrize(
    ("layers", "linears"),
    [
        (EXPERTS_LAYER, ["a", "b"]),
        (EXPERTS_LAYER, []),
        (EXPERTS_LAYER[:4], ["a"]),
        (EXPERTS_LAYER[:4], ["a", "b", "c"]),
        ((*EXPERTS_LAYER[:1] * 2, *EXPERTS_LAYER[2:], EXPERTS_LAYER[4]), []),
        ((*EXPERTS_LAYER[:4], ("moe_fused_mul_sum_kernel", Region.DRAFTING)), ["a"]),
        ((*EXPERTS_LAYER, ("void humming<b>", Region.FORWARD)), ["a", "b"]),
    ],
    ids=[
        "too few",
        "too many",
        "no sum",
        "no sum nor too many",
        "two sums of the same",
        "a draft's sum",
        "late",
    ],
)
def test_where_numbers_do_not_agree_no_product_is_said_to_be_of_experts(
    layers: tuple[tuple[str, Region], ...], linears: list[str]
) -> None:
    parts = parts_of_step(step(*layers), linears)
    named = [part for (name, _), part in zip(layers, parts, strict=True) if "humming" in name]
    assert "experts" not in named


@pytest.mark.parametrize(
    "name", ["moe_fused_mul_sum_kernel", "vllm::moe::moe_sum_vec_kernel<8>", "finalizeMoeRoutingKernel<a>"]
)
def test_whatever_sums_what_experts_gave_their_products_are_before_it(name: str) -> None:
    parts = parts_of_step(step(*EXPERTS_LAYER[:4], (name, Region.FORWARD)), ["router"])
    assert parts == ["router", "experts", "experts", "experts", "experts"]


def test_a_shared_expert_that_is_late_in_a_layer_makes_nothing_known() -> None:
    names = [MIXTURE["names"][name] for name, _, _ in MIXTURE["rows"]]
    shared, experts = (
        next(place for place, name in enumerate(names) if each in name)
        for each in ("2048u, 512u>, Shape<8u, 128u, 64u>", "1024u, 2048u>, Shape<8u, 128u, 256u>")
    )
    names.insert(experts, names.pop(shared))
    assert names.index("moe_fused_mul_sum_kernel") > experts, "the same layer"
    parts = parts_of_step(step(*((name, Region.FORWARD) for name in names)), MIXTURE["linears"])
    assert {part for name, part in zip(names, parts, strict=True) if "humming" in name} == {"layers"}


def test_parts_sum_to_the_step_and_what_no_kernel_took_is_outside() -> None:
    kernels = kernel_times([step(*LAYER, *REST)], ["in_proj_qkvz", "in_proj_ba", "out_proj"])
    parts = {
        part.part: part
        for part in parts_of(kernels, 0.03, {"out_proj": 100, "lm_head": 50}, {"gdn_state": 7})
    }
    assert sum(part.time_ms for part in parts.values()) == pytest.approx(0.03)
    assert parts["outside"].time_ms == pytest.approx(0.03 - 12 * 2e-3)
    assert (parts["out_proj"].kind, parts["out_proj"].weight_bytes) == ("gemm", 100)
    assert (parts["gdn_state"].moved_bytes, parts["in_proj_ba"].launches) == (7, 2)
    assert (parts["other"].kind, parts["other"].time_ms) == ("other", pytest.approx(2e-3))


def test_products_that_can_not_be_told_apart_keep_all_bytes_of_the_layers() -> None:
    kernels = kernel_times([step(*LAYER)], [])
    parts = parts_of(kernels, 1.0, {"in_proj_qkvz": 5, "down_proj": 6, "in_proj_ba": 1, "lm_head": 9}, {})
    assert {part.part: part.weight_bytes for part in parts if part.kind == "gemm"} == {"layers": 11}


KERNELS = st.lists(
    st.builds(
        Kernel,
        st.sampled_from([*NAMES]),
        st.sampled_from([*Region]),
        st.floats(0, 1e4),
        st.floats(0, 1e3),
    ),
    min_size=1,
    max_size=30,
).map(tuple)


@given(KERNELS, st.lists(st.sampled_from("abc"), max_size=6), st.floats(0.01, 9))
def test_no_time_is_lost_whatever_ran(one: tuple[Kernel, ...], linears: list[str], step_ms: float) -> None:
    kernels = kernel_times([one], linears)
    assert sum(each.us for each in kernels) == pytest.approx(sum(kernel.own_us for kernel in one))
    assert sum(each.launches for each in kernels) == len(one)
    parts = parts_of(kernels, step_ms, {}, {})
    assert all(part.time_ms >= 0 for part in parts)
    assert sum(part.time_ms for part in parts) == pytest.approx(step_ms)


def test_a_kernel_that_stalls_once_and_a_step_unlike_the_others_do_not_count() -> None:
    usual = step(*LAYER, *REST)
    stalled = (Kernel(usual[0].name, usual[0].region, 0.0, 1100.0), *usual[1:])
    unlike = step(*LAYER, *LAYER)
    copies_elsewhere = (usual[-1], *usual[:-1])
    steps = typical([unlike, usual, stalled, copies_elsewhere])
    assert steps == [usual, stalled, copies_elsewhere]
    assert kernel_times(steps, ["a", "b", "c"]) == kernel_times([usual], ["a", "b", "c"])


def recorded(name: str) -> dict[str, PartTime]:
    """The parts of a step of the 9B shape that was recorded on an H200."""
    return {part.part: part for part in recorded_parts(name)}


@pytest.mark.parametrize(("name", "launches"), [("bf16", 574), ("marlin", 510), ("machete", 606)])
def test_on_an_h200_every_kernel_has_a_part_and_every_product_its_linear_layer(
    name: str, launches: int
) -> None:
    parts = recorded(name)
    assert "other" not in parts
    assert "layers" not in parts
    assert sum(part.launches for part in parts.values()) == pytest.approx(launches, abs=2)
    assert {part.part for part in parts.values() if part.kind == "gemm"} == {
        *("in_proj_qkvz", "out_proj", "qkv_proj", "o_proj", "gate_up_proj", "down_proj"),
    }
    assert (parts["gdn_state"].launches, parts["conv1d"].launches) == (24, 24)


def share_of_bandwidth(name: str, part: PartTime) -> float:
    return 1e3 * part.weight_bytes / part.time_ms / float(PROFILED["bf16"]["copy_bytes_per_s"])


def test_on_an_h200_dense_products_and_the_head_read_at_the_speed_of_memory_and_packed_ones_do_not() -> None:
    for name in ("bf16", "marlin", "machete"):
        assert share_of_bandwidth(name, recorded(name)["lm_head"]) == pytest.approx(0.97, abs=0.03)
    for linear in ("gate_up_proj", "down_proj", "in_proj_qkvz"):
        shares = {name: share_of_bandwidth(name, recorded(name)[linear]) for name in PROFILED}
        assert shares["bf16"] > 0.75
        assert shares["marlin"] < 0.5
        assert shares["machete"] < shares["marlin"]


def test_caches_are_read_once_for_each_sequence() -> None:
    read = {"kv_bytes_per_token": 32_768, "state_bytes": 2 * 48 * 2**20, "conv_bytes": 10}
    assert cache_bytes(read, 640, 4) == {
        "attention": 4 * 640 * 32_768,
        "gdn_state": 8 * 48 * 2**20,
        "conv1d": 40,
    }
