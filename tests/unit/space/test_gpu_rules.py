"""What vLLM serves on a GPU by its compute capability: told before anything loads. No GPU is asked."""

from __future__ import annotations

import pytest

from agent.ground.sweep import passed_over, swept
from configs.models import load_model_profile
from experiments.space.configuration import KnobValue
from experiments.space.gdn_decode_rules import GDN_DECODE
from experiments.space.gdn_prefill_rules import GDN_PREFILL
from experiments.space.gpu import Gpu
from experiments.space.gpu_rules import not_known_on, not_served_by, refused_on, same_on
from experiments.space.legality import ModelFacts, Withheld, legal_levers
from experiments.space.loading import load_space
from experiments.space.number_formats import (
    CACHE_DTYPE,
    DRAFT_LM_HEAD,
    DTYPE,
    STATE_DTYPE,
    WEIGHT_DTYPE,
)
from experiments.space.space import Space

SPACE = load_space("vllm")
MODEL = load_model_profile("qwen3.5-4b")
FP8 = {"fp8_e4m3", "fp8_e5m2"}


def values(found: dict[tuple[str, KnobValue], str], knob: str) -> set[KnobValue]:
    return {value for name, value in found if name == knob}


@pytest.mark.parametrize(
    ("capability", "refused"),
    [
        ("7.0", {(DTYPE, "bfloat16"), (WEIGHT_DTYPE, "fp8"), *((CACHE_DTYPE, each) for each in FP8)}),
        ("7.5", {(DTYPE, "bfloat16"), *((CACHE_DTYPE, each) for each in FP8)}),
        ("8.0", set()),
        ("8.9", set()),
        ("10.0", set()),
        ("12.0", set()),
        (None, set()),
    ],
)
def test_formats_are_served_from_the_compute_capability_on_that_vllm_s_sources_name(
    capability: str | None, refused: set[tuple[str, KnobValue]]
) -> None:
    found = not_served_by(SPACE, MODEL, Gpu(capability))
    formats = (DTYPE, WEIGHT_DTYPE, CACHE_DTYPE, STATE_DTYPE)
    assert {each for each in found if each[0] in formats} == refused
    assert all(f"this GPU has {capability}" in found[each] for each in refused)


@pytest.mark.parametrize(
    ("capability", "head", "refused", "doubted"),
    [
        ("8.6", 256, set(), FP8),
        ("8.6", 96, FP8, set()),
        ("8.9", 96, set(), set()),
        ("8.9", 256, set(), set()),
    ],
)
def test_8_bit_keys_and_values_below_8_9_are_flashinfer_s_alone_which_was_not_tried_there(
    capability: str, head: int, refused: set[str], doubted: set[str]
) -> None:
    profile = MODEL.model_copy(update={"attention_head_dim": head})
    gpu = Gpu(capability)
    assert values(not_served_by(SPACE, profile, gpu), CACHE_DTYPE) == refused
    left = values(not_known_on(SPACE, profile, gpu), CACHE_DTYPE) - refused
    assert left == doubted


@pytest.mark.parametrize(
    ("capability", "head", "refused", "doubted"),
    [
        ("9.0", 256, {"fp8_e5m2"}, set()),
        ("9.0", 96, set(), set()),  # Triton's attention, which takes either
        ("10.0", 256, set(), {"fp8_e5m2"}),
    ],
)
def test_keys_in_e5m2_are_refused_where_two_versions_of_vllm_read_no_prompt_with_them(
    capability: str, head: int, refused: set[str], doubted: set[str]
) -> None:
    profile = MODEL.model_copy(update={"attention_head_dim": head})
    found = not_served_by(SPACE, profile, Gpu(capability))
    assert values(found, CACHE_DTYPE) == refused
    assert values(not_known_on(SPACE, profile, Gpu(capability)), CACHE_DTYPE) - refused == doubted
    assert all("take fp8_e4m3" in found[CACHE_DTYPE, value] for value in refused)


def test_a_model_without_attention_keeps_no_keys_that_a_gpu_could_lack_a_format_for() -> None:
    gdn = MODEL.model_copy(update={"layer_types": ("linear_attention",) * 4})
    assert not values(not_served_by(SPACE, gdn, Gpu("7.5")), CACHE_DTYPE)
    assert not values(not_known_on(SPACE, gdn, Gpu("8.6")), CACHE_DTYPE)
    assert not values(not_served_by(SPACE, gdn, Gpu("9.0")), CACHE_DTYPE)


def test_states_in_bfloat16_are_not_known_where_activations_in_it_are_refused() -> None:
    assert values(not_known_on(SPACE, MODEL, Gpu("7.5")), STATE_DTYPE) == {"bfloat16"}
    assert not values(not_known_on(SPACE, MODEL, Gpu("8.0")), STATE_DTYPE)


def test_of_a_card_whose_capability_is_not_known_nothing_is_known_that_some_card_lacks() -> None:
    found = not_known_on(SPACE, MODEL, Gpu(None))
    assert set(found) == {
        (DTYPE, "bfloat16"),
        *((CACHE_DTYPE, value) for value in FP8),
        (STATE_DTYPE, "bfloat16"),
        *(("serving.linear_backend", value) for value in ("machete", "conch")),
        *((GDN_PREFILL, value) for value in ("auto", "triton", "flashinfer")),
        (GDN_DECODE, "cuda"),
        (DRAFT_LM_HEAD, "fp8"),
    }
    assert found[DTYPE, "bfloat16"] == (
        "The card's compute capability is not known; if it is 7.5: vLLM computes in bfloat16 from compute "
        "capability 8.0 on, and this GPU has 7.5: take serving.dtype=float16."
    )
    fit_for_all = ("serving.weight_dtype", "fp8"), ("serving.linear_backend", "marlin")
    assert not set(found) & set(fit_for_all)


def test_nothing_is_said_of_an_engine_whose_sources_were_not_read() -> None:
    other = Gpu("7.5", engine="reference")
    for of in (not_served_by, not_known_on, same_on):
        assert of(SPACE, MODEL, other) == {}
    assert refused_on({DTYPE: "bfloat16"}, MODEL, other) is None


def test_no_8_bit_copy_of_the_output_head_drafts_below_8_9_and_a_4_bit_one_does() -> None:
    assert values(not_served_by(SPACE, MODEL, Gpu("8.6")), DRAFT_LM_HEAD) == {"fp8"}
    assert values(not_served_by(SPACE, MODEL, Gpu("7.0")), DRAFT_LM_HEAD) == {"fp8", "nvfp4"}
    assert not values(not_served_by(SPACE, MODEL, Gpu("8.9")), DRAFT_LM_HEAD)


def test_conch_is_no_kernel_below_8_0() -> None:
    assert ("serving.linear_backend", "conch") in not_served_by(SPACE, MODEL, Gpu("7.5"))
    assert ("serving.linear_backend", "conch") not in not_served_by(SPACE, MODEL, Gpu("8.0"))


def test_a_default_that_the_gpu_lacks_gives_way_to_what_it_has() -> None:
    left, _ = legal_levers(SPACE, ModelFacts.of(MODEL, not_served=not_served_by(SPACE, MODEL, Gpu("7.5"))))
    assert left.configuration({})[DTYPE] == "float16"


ALL_VERSIONS = (None, (0, 26), (0, 29), (0, 30), (0, 33))


@pytest.mark.parametrize(
    ("capability", "head", "versions", "refused", "doubted", "same"),
    [
        ("8.6", 128, ALL_VERSIONS, "and this GPU has 8.6: vLLM would run", None, "triton"),
        ("8.9", 128, ALL_VERSIONS, "and this GPU has 8.9: vLLM would run", None, "triton"),
        ("10.0", 128, ALL_VERSIONS, None, "CUDA 13", None),
        ("10.3", 64, ALL_VERSIONS, "heads of 128 alone", None, "triton"),
        ("11.0", 128, ALL_VERSIONS, "9.0, 10.x and 12.x", None, "triton"),
        ("12.0", 128, ((0, 26), (0, 29)), "from 0.30 on on 12.x too", None, "triton"),
        ("12.0", 128, ((0, 30), (0, 33)), None, "CUDA 13", None),
        ("12.0", 128, (None,), None, "vLLM 0.30 or later", None),
        ("12.0", 64, ALL_VERSIONS, "would run Triton's instead", None, "triton"),
        (None, 128, ALL_VERSIONS, None, "The card's compute capability is not known; if it is ", None),
    ],
)
def test_kernels_for_prompts_are_told_by_gpu_shape_and_version(
    capability: str | None,
    head: int,
    versions: tuple[tuple[int, int] | None, ...],
    refused: str | None,
    doubted: str | None,
    same: str | None,
) -> None:
    profile = MODEL.model_copy(update={"gdn_k_head_dim": head})
    for version in versions:
        gpu = Gpu(capability, version=version)
        for found, told in (
            (not_served_by(SPACE, profile, gpu), refused),
            (not_known_on(SPACE, profile, gpu), doubted),
        ):
            of_triton = {"auto", "triton"} if capability is None and told is doubted else set()
            only = set() if told is None else {"flashinfer"}
            assert values(found, GDN_PREFILL) - of_triton == only, version
            assert told is None or told in found[GDN_PREFILL, "flashinfer"]
        assert values(same_on(SPACE, profile, gpu), GDN_PREFILL) == (set() if same is None else {same})


def legal_on(capability: str) -> tuple[Space, tuple[Withheld, ...]]:
    gpu = Gpu(capability)
    facts = ModelFacts.of(MODEL, not_served=not_served_by(SPACE, MODEL, gpu), same=same_on(SPACE, MODEL, gpu))
    return legal_levers(SPACE, facts)


@pytest.mark.parametrize(
    ("sweep", "times"),
    [
        ({GDN_PREFILL: ["auto", "triton"]}, ["auto"]),
        ([GDN_PREFILL], ["auto"]),
        ({GDN_PREFILL: ["triton"]}, ["triton"]),
    ],
)
def test_a_sweep_times_one_of_two_names_of_the_same_kernels(
    sweep: list[str] | dict[str, list[KnobValue]], times: list[str]
) -> None:
    space, _ = legal_on("8.9")
    assert [each[GDN_PREFILL] for each in swept(space, None, sweep)] == times


def test_a_sweep_on_hopper_times_both_kernels() -> None:
    space, withheld = legal_on("9.0")
    sweep: dict[str, list[KnobValue]] = {GDN_PREFILL: ["auto", "triton"]}
    assert [each[GDN_PREFILL] for each in swept(space, None, sweep)] == ["auto", "triton"]
    assert passed_over(space, None, withheld, sweep) is None


def test_what_a_sweep_passes_over_is_said_and_stays_legal_for_who_names_it() -> None:
    space, withheld = legal_on("8.9")
    told = str(passed_over(space, None, withheld, {GDN_PREFILL: ["auto", "triton"]}))
    assert told == (
        "The sweep before trial 0 passes over serving.gdn_prefill_backend=triton: On compute capability 8.9 "
        "vLLM's own choice, auto, is Triton's kernels for prompts: both are the same, so auto alone is timed."
    )
    assert passed_over(space, None, withheld, ["serving.dtype"]) is None
    assert space.configuration({GDN_PREFILL: "triton"})[GDN_PREFILL] == "triton"
    assert space.knob(GDN_PREFILL).values == ("auto",)
