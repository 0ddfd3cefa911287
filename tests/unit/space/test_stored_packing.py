"""How stored weights are packed is read from config.json, and says which kernels multiply them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from configs.models import load_model_profile
from experiments.space.configuration import Configuration
from experiments.space.gpu import Gpu
from experiments.space.gpu_rules import KERNEL_BITS, KERNEL_GROUPS, not_served_by, stored_format_refused
from experiments.space.legality import ModelFacts, joint_refusal, legal_levers, with_stored_kernels
from experiments.space.loading import load_space
from experiments.space.stored_packing import PackedFormat, StoredPacking, stored_packing

SPACE, PROFILE = load_space("vllm"), load_model_profile("qwen3.5-9b")
KERNEL = "serving.linear_backend"
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm", "zero_point": True}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True}
WEIGHTS = {"num_bits": 4, "type": "int", "symmetric": True, "group_size": 32, "strategy": "group"}
W4 = StoredPacking((PackedFormat(4, 128, symmetric=True),))


def compressed(*weights: Mapping[str, Any], **other: object) -> dict[str, Any]:
    groups = {f"group_{at}": {"targets": ["Linear"], "weights": each} for at, each in enumerate(weights)}
    return {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "config_groups": groups,
        **other,
    }


def facts(packing: StoredPacking | None) -> ModelFacts:
    return ModelFacts.of(PROFILE, stored_quantized=True, packing=packing)


@pytest.mark.parametrize(
    ("told", "formats"),
    [
        (AWQ, [(4, 128, False)]),
        ({**AWQ, "group_size": -1}, [(4, None, False)]),
        (GPTQ, [(4, 128, True)]),
        ({**GPTQ, "bits": 8}, [(8, 128, True)]),
        (compressed(WEIGHTS), [(4, 32, True)]),
        (compressed({**WEIGHTS, "symmetric": False}), [(4, 32, False)]),
        (compressed(WEIGHTS, {**WEIGHTS, "num_bits": 8}), [(4, 32, True), (8, 32, True)]),
        (compressed(WEIGHTS, WEIGHTS), [(4, 32, True)]),
        (compressed({**WEIGHTS, "strategy": "channel", "group_size": None}), [(4, None, True)]),
        (compressed({**WEIGHTS, "actorder": "static"}), [(4, 32, True)]),
    ],
)
def test_bits_groups_and_symmetry_are_those_of_the_config(
    told: dict[str, Any], formats: list[tuple[int, int | None, bool]]
) -> None:
    found = stored_packing(told, head=True)
    assert found == StoredPacking(tuple(PackedFormat(*each) for each in formats), head=True)


@pytest.mark.parametrize(
    "told",
    [
        None,
        {"quant_method": "fp8", "weight_block_size": [128, 128]},
        {**AWQ, "version": "gemv"},
        {**AWQ, "group_size": 16},
        {**AWQ, "zero_point": False},
        {**GPTQ, "desc_act": True},
        {**GPTQ, "sym": False},
        {**GPTQ, "bits": 3},
        {**GPTQ, "dynamic": {"-:.*down_proj": {}}},
        compressed(WEIGHTS, format="int-quantized"),
        compressed({**WEIGHTS, "type": "float"}),
        compressed({**WEIGHTS, "strategy": "tensor"}),
        compressed({**WEIGHTS, "actorder": "group"}),
        compressed({**WEIGHTS, "num_bits": "four"}),
        compressed(),
        {**compressed(), "config_groups": {"a": {"weights": WEIGHTS, "input_activations": {"num_bits": 8}}}},
        {**compressed(), "config_groups": {"a": {"weights": WEIGHTS}, "b": {"weights": None}}},
    ],
)
def test_of_what_these_kernels_do_not_multiply_none_can_be_named(told: dict[str, Any] | None) -> None:
    assert stored_packing(told) is None


def test_kernels_are_a_choice_on_packed_weights_alone_although_nothing_is_quantized() -> None:
    asked = Configuration.of({KERNEL: "marlin"})
    space, withheld = legal_levers(with_stored_kernels(SPACE, W4), facts(W4))
    found = space.with_change(space.configuration({}), asked)
    assert (found["quantization.method"], found[KERNEL]) == ("none", "marlin")
    assert joint_refusal(found, facts(W4)) is None
    assert not [each for each in withheld if each.knob == KERNEL]
    plain, _ = legal_levers(with_stored_kernels(SPACE, None), facts(None))
    assert KERNEL not in plain.configuration({})
    assert with_stored_kernels(load_space("levers"), W4) == load_space("levers")


@pytest.mark.parametrize(
    ("format_", "refused"),
    [
        (PackedFormat(4, 128, symmetric=True), set()),
        (PackedFormat(4, 128, symmetric=False), {"exllama"}),
        (PackedFormat(4, 64, symmetric=True), {"conch"}),
        (PackedFormat(4, 32, symmetric=True), {"conch", "machete"}),
        (PackedFormat(4, 16, symmetric=True), {"conch", "machete", "marlin", "triton"}),
        (PackedFormat(4, None, symmetric=True), {"exllama"}),
        (PackedFormat(8, 128, symmetric=True), {"triton"}),
        (PackedFormat(8, 128, symmetric=False), {"triton", "exllama", "marlin"}),
        (PackedFormat(2, 128, symmetric=True), {"conch", "exllama", "machete", "marlin", "triton"}),
    ],
)
def test_a_kernel_that_does_not_multiply_the_stored_format_is_not_offered(
    format_: PackedFormat, refused: set[str]
) -> None:
    packing = StoredPacking((PackedFormat(4, 128, symmetric=True), format_))
    _, withheld = legal_levers(with_stored_kernels(SPACE, packing), facts(packing))
    told = {each.value: each.why for each in withheld if each.knob == KERNEL}
    assert set(told) == refused
    for why in told.values():
        assert why.endswith(f": take another {KERNEL}, or leave it at auto.")
        assert why.count(".") == 2  # the knob's name has one


def test_the_reason_says_what_a_kernel_takes_and_what_is_stored() -> None:
    packing = StoredPacking((PackedFormat(4, 32, symmetric=False),))
    assert stored_format_refused("machete", packing) == (
        "Machete multiplies groups of 64 or 128 alone, and the checkpoint's weights are stored in groups of "
        "32: take another serving.linear_backend, or leave it at auto."
    )


def test_the_gpu_and_the_type_of_activations_count_as_for_weights_that_are_quantized_here() -> None:
    space = with_stored_kernels(SPACE, W4)
    assert (KERNEL, "machete") in not_served_by(space, PROFILE, Gpu("8.9"))
    exllama = space.configuration({KERNEL: "exllama"})
    assert "Exllama multiplies float16" in str(joint_refusal(exllama, facts(W4)))
    half = space.with_change(exllama, {"serving.dtype": "float16"})
    assert joint_refusal(half, facts(W4)) is None


def test_a_copy_of_a_head_that_is_stored_packed_is_refused() -> None:
    asked = {"drafting.method": "mtp", "drafting.lm_head": "nvfp4"}
    found = with_stored_kernels(SPACE, W4).configuration(asked)
    assert joint_refusal(found, facts(W4)) is None
    assert joint_refusal(found, facts(replace(W4, head=True))) == (
        "For drafting.lm_head vLLM copies heads of 16 bits alone, and the checkpoint's is packed: leave it "
        "at auto."
    )


def test_every_kernel_of_these_tables_is_a_value_of_the_space() -> None:
    values = set(SPACE.knob(KERNEL).values)
    assert {*KERNEL_BITS, *KERNEL_GROUPS} <= values
