"""What computes the experts of a Mixture of Experts: a knob of such a model alone, by its weights."""

from __future__ import annotations

from dataclasses import replace

import pytest

from configs.errors import UsageError
from configs.models import load_model_profile
from experiments.space.configuration import KnobValue
from experiments.space.gpu import Gpu
from experiments.space.gpu_rules import not_known_on, not_served_by, refused_on
from experiments.space.legality import ModelFacts, joint_refusal, legal_levers
from experiments.space.loading import load_space
from experiments.space.moe_backend_rules import MOE_BACKEND, NO_EXPERTS
from experiments.space.space import Space
from experiments.space.stored_packing import PackedFormat, StoredPacking

VLLM = load_space("vllm")
OF_EXPERTS = VLLM.of_experts()
MIXTURE, DENSE = load_model_profile("qwen3.5-35b-a3b"), load_model_profile("qwen3.5-9b")
H200 = Gpu("9.0", version=(0, 33))
NAMED = ("batched_triton", "flashinfer_cutlass", "humming", "marlin", "triton")
FP8: dict[str, KnobValue] = {"serving.weight_dtype": "fp8"}
PACKED: dict[str, KnobValue] = {"quantization.method": "rtn", "quantization.group_size": 128}
ZERO_POINTS: dict[str, KnobValue] = {**PACKED, "quantization.symmetric": False}
MTP: dict[str, KnobValue] = {"drafting.method": "mtp", "drafting.draft_tokens": 1}


def refused(
    kernel: str, knobs: dict[str, KnobValue], gpu: Gpu | None = H200, *, stored_quantized: bool = False
) -> str | None:
    facts = ModelFacts.of(MIXTURE, gpu=gpu, stored_quantized=stored_quantized)
    return joint_refusal(OF_EXPERTS.configuration({**knobs, MOE_BACKEND: kernel}), facts)


def test_a_dense_model_has_no_such_knob_and_one_sentence_says_why() -> None:
    on_a_processor = {(MOE_BACKEND, "triton"): "On a processor it goes by no name."}
    for not_served in ({}, on_a_processor, not_served_by(VLLM, DENSE, Gpu("8.6"))):
        space, withheld = legal_levers(VLLM, ModelFacts.of(DENSE, not_served=not_served))
        assert {each.value: each.why for each in withheld if each.knob == MOE_BACKEND} == dict.fromkeys(
            ("auto", *NAMED), NO_EXPERTS
        )
        assert MOE_BACKEND not in {knob.name for knob in space.knobs}
        assert "experts_kernel" not in space.levers


def test_what_is_done_with_a_dense_model_is_what_it_was_before_there_was_the_knob() -> None:
    before = Space(tuple(knob for knob in VLLM.knobs if knob.name != MOE_BACKEND))
    start = before.configuration({})
    assert VLLM.configuration({}).digest == start.digest
    assert VLLM.neighbours(start) == before.neighbours(start)
    assert VLLM.size == before.size
    assert legal_levers(VLLM, ModelFacts.of(DENSE))[0] == legal_levers(before, ModelFacts.of(DENSE))[0]


def test_naming_it_for_a_dense_model_is_refused_in_a_sentence() -> None:
    with pytest.raises(UsageError) as told:
        VLLM.configuration({MOE_BACKEND: "triton"})
    assert told.value.message == (
        f"{MOE_BACKEND} is set, but it only means something for a Mixture of Experts, and this model has no "
        "experts."
    )


def test_a_mixture_of_experts_has_every_value_and_other_configurations_the_engine_s_choice() -> None:
    space, withheld = legal_levers(OF_EXPERTS, ModelFacts.of(MIXTURE, gpu=H200))
    assert space.knob(MOE_BACKEND).values == ("auto", *NAMED)
    assert MOE_BACKEND not in {each.knob for each in withheld}
    assert space.configuration({})[MOE_BACKEND] == "auto"


@pytest.mark.parametrize(
    ("capability", "gone"),
    [
        ("7.5", True),
        ("8.9", True),
        ("9.0", False),
        ("10.0", False),
        ("10.3", False),
        ("11.0", True),
        ("12.0", False),
    ],
)
def test_flashinfer_computes_experts_on_some_gpus_alone(capability: str, gone: bool) -> None:
    found = not_served_by(OF_EXPERTS, MIXTURE, Gpu(capability))
    assert {value for knob, value in found if knob == MOE_BACKEND} == (
        {"flashinfer_cutlass"} if gone else set()
    )
    if gone:
        assert f"and this GPU has {capability}." in found[MOE_BACKEND, "flashinfer_cutlass"]


def test_the_check_of_a_launch_refuses_it_for_a_dense_model_too() -> None:
    assert refused_on({MOE_BACKEND: "triton"}, DENSE, H200) == (MOE_BACKEND, "triton", NO_EXPERTS)
    assert refused_on({MOE_BACKEND: "auto"}, DENSE, H200) is None
    assert refused_on({MOE_BACKEND: "triton"}, MIXTURE, H200) is None


def test_of_a_gpu_that_is_not_known_it_is_not_known() -> None:
    found = not_known_on(OF_EXPERTS, MIXTURE, Gpu(None))
    assert {value for knob, value in found if knob == MOE_BACKEND} == {"flashinfer_cutlass"}


@pytest.mark.parametrize(
    ("knobs", "taken"),
    [
        ({}, set(NAMED)),
        (FP8, {"marlin", "triton"}),
        (PACKED, {"humming", "marlin", "triton"}),
        (ZERO_POINTS, {"marlin", "triton"}),
        ({**ZERO_POINTS, "quantization.group_size": 32}, {"humming", "marlin", "triton"}),
    ],
)
def test_each_format_has_its_kernels(knobs: dict[str, KnobValue], taken: set[str]) -> None:
    assert {kernel for kernel in NAMED if refused(kernel, knobs) is None} == taken
    assert refused("auto", knobs) is None


def test_a_refused_pair_says_in_a_sentence_what_to_do() -> None:
    assert refused("humming", FP8) == (
        f"{MOE_BACKEND}=humming computes no experts that are rounded to fp8 at the load: take marlin or "
        f"triton for {MOE_BACKEND}, or leave it at auto."
    )
    assert refused("batched_triton", PACKED) == (
        f"{MOE_BACKEND}=batched_triton computes no packed experts: take humming, marlin or triton for "
        f"{MOE_BACKEND}, or leave it at auto."
    )
    assert refused("humming", ZERO_POINTS) == (
        f"{MOE_BACKEND}=humming computes no experts that are packed in groups of 128 with zero points: take "
        f"another {MOE_BACKEND}, or leave it at auto."
    )


def test_marlin_packs_experts_in_no_other_groups_than_its_own() -> None:
    space = Space(
        tuple(
            replace(knob, values=(*knob.values, 256)) if knob.name == "quantization.group_size" else knob
            for knob in OF_EXPERTS.knobs
        )
    )
    asked = {**PACKED, "quantization.group_size": 256, MOE_BACKEND: "marlin"}
    facts = replace(ModelFacts.of(MIXTURE, gpu=H200), input_sizes={})
    assert "packed in groups of 256" in (joint_refusal(space.configuration(asked), facts) or "")


def test_triton_computes_experts_in_fp8_where_the_gpu_does() -> None:
    assert "from compute capability 8.9 on" in (refused("triton", FP8, Gpu("8.6")) or "")
    assert refused("marlin", FP8, Gpu("8.6")) is None


@pytest.mark.parametrize(
    ("knobs", "why"),
    [
        ({}, "those of this model are stored so"),
        ({**PACKED, "quantization.keep": "edges"}, "quantization.keep=edges leaves some so"),
        ({**PACKED, **MTP}, "the MTP head's stay so"),
        (PACKED, None),
        (FP8, None),
    ],
)
def test_before_0_33_marlin_stands_beside_no_experts_of_16_bits(
    knobs: dict[str, KnobValue], why: str | None
) -> None:
    found = refused("marlin", knobs, Gpu("9.0", version=(0, 32)))
    assert found is None if why is None else why in (found or "")
    assert refused("marlin", knobs) is None
    assert refused("marlin", knobs, Gpu("9.0")) is None


def test_nothing_is_said_where_no_gpu_serves_and_of_experts_that_are_stored_quantized() -> None:
    assert refused("humming", FP8, None) is None
    assert refused("batched_triton", {}, stored_quantized=True) is None


def stored(*formats: PackedFormat, experts: bool = True) -> dict[str, str | None]:
    """What is said against each kernel of a checkpoint whose weights are packed so."""
    facts = ModelFacts.of(
        MIXTURE, gpu=H200, stored_quantized=True, packing=StoredPacking(formats, experts=experts)
    )
    return {
        kernel: joint_refusal(OF_EXPERTS.configuration({MOE_BACKEND: kernel}), facts)
        for kernel in ("auto", *NAMED)
    }


def test_kernels_that_compute_no_packed_experts_are_refused_where_a_checkpoint_stores_them_packed() -> None:
    zero_points = stored(PackedFormat(4, 128, symmetric=False))
    assert {kernel for kernel, why in zero_points.items() if why is None} == {"auto", "marlin", "triton"}
    assert zero_points["batched_triton"] == (
        "serving.moe_backend=batched_triton computes no packed experts: take humming, marlin or triton for "
        "serving.moe_backend, or leave it at auto."
    )
    assert "in groups of 128 with zero points" in (zero_points["humming"] or "")
    several = stored(PackedFormat(4, 128, symmetric=False), PackedFormat(4, 32, symmetric=False))
    assert several["humming"] is None, "which of them its experts have is not known"
    assert several["batched_triton"]
    assert not any(stored(PackedFormat(4, 128, symmetric=False), experts=False).values())


@pytest.mark.parametrize("kernel", ["humming", "marlin"])
def test_beside_experts_of_16_bits_a_kernel_of_quantized_ones_does_what_auto_does(kernel: str) -> None:
    space, _ = legal_levers(OF_EXPERTS, ModelFacts.of(MIXTURE, gpu=H200))
    start = space.configuration({})
    named = space.with_change(start, {MOE_BACKEND: kernel})
    assert (space.why_same(start, named) or "").startswith(
        f"{kernel.capitalize()} multiplies quantized experts"
    )
    assert named not in space.neighbours(start)
    rounded = space.with_change(start, FP8)
    assert space.why_same(rounded, space.with_change(named, FP8)) is None
    stored, _ = legal_levers(OF_EXPERTS, ModelFacts.of(MIXTURE, gpu=H200, stored_quantized=True))
    assert stored.why_same(start, named) is None


def test_a_space_that_has_what_a_configuration_has() -> None:
    assert VLLM.that_has({"serving.dtype": "bfloat16"}) is VLLM
    assert VLLM.that_has({MOE_BACKEND: "auto"}) == OF_EXPERTS
    assert not any(knob.of_experts for knob in OF_EXPERTS.knobs)
