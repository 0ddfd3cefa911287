"""Experts that no kernel of vLLM's on a GPU multiplies, or Marlin wrongly, are refused, and no others are."""

from __future__ import annotations

import pytest

from configs.models import Experts, ModelProfile, load_model_profile
from experiments.space.configuration import KnobValue
from experiments.space.experts_rules import ExpertSizes, packed_experts_refused
from experiments.space.gpu import Gpu
from experiments.space.legality import ModelFacts, joint_refusal
from experiments.space.loading import load_space
from experiments.space.stored_packing import PackedFormat, StoredPacking

SPACE = load_space("vllm")
MIXTURE, DENSE = load_model_profile("qwen3.5-35b-a3b"), load_model_profile("qwen3.5-9b")
NARROW = MIXTURE.model_copy(update={"experts": Experts(count=8, per_token=2, intermediate=128)})
"""With experts as wide as groups of 128, and no wider."""

HOPPER, ADA = Gpu("9.0"), Gpu("8.9")
AUTO, MARLIN = "auto", "marlin"


def refused(profile: ModelProfile = MIXTURE, gpu: Gpu | None = HOPPER, **knobs: KnobValue) -> str | None:
    asked = {"method": "rtn", **knobs}
    named = {f"quantization.{name}": value for name, value in asked.items()}
    return joint_refusal(SPACE.configuration(named), ModelFacts.of(profile, gpu=gpu))


def test_experts_of_8_bits_with_zero_points_have_no_kernel_and_one_sentence_says_what_to_take() -> None:
    assert refused(bits=8, symmetric=False) == (
        "vLLM has no kernel for a Mixture of Experts' experts in 8 bits with zero points: take "
        "quantization.symmetric=true, or quantization.bits=4."
    )


@pytest.mark.parametrize("group_size", [32, 64, 128])
@pytest.mark.parametrize(("bits", "symmetric"), [(8, True), (4, True), (4, False)])
def test_every_other_format_of_the_space_is_legal(bits: int, symmetric: bool, group_size: int) -> None:
    assert refused(bits=bits, symmetric=symmetric, group_size=group_size) is None


def test_zero_points_beside_an_out_projection_of_8_bits_are_no_matter_of_experts() -> None:
    assert refused(bits=4, symmetric=False, out_proj_bits=8) is None


def test_of_a_dense_model_another_engine_and_where_no_gpu_is_known_nothing_is_said() -> None:
    assert refused(DENSE, bits=8, symmetric=False) is None
    assert refused(gpu=Gpu("9.0", engine="another"), bits=8, symmetric=False) is None
    assert refused(gpu=None, bits=8, symmetric=False) is None


def on_narrow(
    kernel: str, gpu: Gpu | None = HOPPER, profile: ModelProfile = NARROW, **knobs: KnobValue
) -> str | None:
    asked = {"method": "rtn", "group_size": 128, **knobs}
    named = {f"quantization.{name}": value for name, value in asked.items()}
    space = SPACE.of_experts()
    configuration = space.configuration({**named, "serving.moe_backend": kernel})
    return joint_refusal(configuration, ModelFacts.of(profile, gpu=gpu))


def test_groups_as_wide_as_an_expert_are_refused_of_marlin_and_one_sentence_says_what_to_take() -> None:
    assert on_narrow(MARLIN) == (
        "Marlin gives wrong answers where experts are packed in groups of 128, as wide as an expert: take "
        "humming or triton for serving.moe_backend, or a smaller quantization.group_size."
    )
    assert on_narrow(AUTO, symmetric=False) == (
        "Marlin, which vLLM would choose here, gives wrong answers where experts are packed in groups of "
        "128, as wide as an expert: take triton for serving.moe_backend, or a smaller "
        "quantization.group_size."
    )


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize(
    ("gpu", "refused"), [(HOPPER, False), (ADA, True), (Gpu("12.0"), True), (Gpu(None), True)]
)
def test_of_auto_they_are_refused_where_vllm_does_not_surely_take_humming(
    gpu: Gpu, refused: bool, bits: int
) -> None:
    assert (on_narrow(AUTO, gpu, bits=bits) is not None) is refused


@pytest.mark.parametrize("gpu", [HOPPER, ADA])
def test_what_the_sentence_names_is_legal(gpu: Gpu) -> None:
    for kernel in (AUTO, MARLIN):
        assert on_narrow(kernel, gpu, group_size=64) is None
        assert on_narrow(kernel, gpu, group_size=64, symmetric=False) is None
    for kernel in ("humming", "triton"):
        assert on_narrow(kernel, gpu) is None
    assert on_narrow("triton", gpu, symmetric=False) is None


@pytest.mark.parametrize(
    ("hidden", "why"),
    [(128, "the first products have one group too"), (2112, "Marlin multiplies no such hidden size")],
)
def test_hidden_sizes_for_which_it_is_no_matter(hidden: int, why: str) -> None:
    sizes = ExpertSizes(hidden, 128)
    asked = {"quantization.bits": 4, "quantization.group_size": 128}
    assert packed_experts_refused(asked, ADA, ExpertSizes(2048, 128)) is not None
    assert packed_experts_refused(asked, ADA, sizes) is None, why


def test_a_model_whose_experts_are_wider_than_groups_keeps_every_kernel() -> None:
    for kernel in (AUTO, MARLIN):
        assert on_narrow(kernel, ADA, MIXTURE) is None
        assert on_narrow(kernel, ADA, MIXTURE, symmetric=False) is None


def of_stored(
    *formats: PackedFormat, kernel: str = AUTO, gpu: Gpu = HOPPER, experts: bool = True
) -> str | None:
    packing = StoredPacking(formats, experts=experts)
    facts = ModelFacts.of(NARROW, gpu=gpu, stored_quantized=True, packing=packing)
    return joint_refusal({"serving.moe_backend": kernel}, facts)


WIDE, FINE = PackedFormat(4, 128, symmetric=False), PackedFormat(4, 32, symmetric=True)


def test_of_experts_that_a_checkpoint_stores_packed_the_same_is_said() -> None:
    assert of_stored(WIDE) == (
        "Marlin, which vLLM would choose here, gives wrong answers where experts are packed in groups of "
        "128, as wide as an expert: take triton for serving.moe_backend."
    )
    assert of_stored(PackedFormat(8, 32, symmetric=False)) == (
        "vLLM has no kernel for a Mixture of Experts' experts in 8 bits with zero points: take a checkpoint "
        "without them."
    )
    assert of_stored(WIDE, kernel="triton") is None
    assert of_stored(FINE) is None
    assert of_stored(PackedFormat(4, None, symmetric=True), gpu=ADA) is None


def test_nothing_is_said_of_stored_formats_that_may_not_be_the_experts() -> None:
    assert of_stored(WIDE, experts=False) is None
    assert of_stored(WIDE, FINE) is None
    assert of_stored(WIDE, PackedFormat(8, 128, symmetric=False)) is not None
    assert of_stored() is None
