"""Experts of 8 bits with zero points are refused on a GPU of vLLM's, and nothing else of their format is."""

from __future__ import annotations

import pytest

from configs.models import ModelProfile, load_model_profile
from experiments.space.configuration import KnobValue
from experiments.space.gpu import Gpu
from experiments.space.legality import ModelFacts, joint_refusal
from experiments.space.loading import load_space

SPACE = load_space("vllm")
MIXTURE, DENSE = load_model_profile("qwen3.5-35b-a3b"), load_model_profile("qwen3.5-9b")
HOPPER = Gpu("9.0")


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
