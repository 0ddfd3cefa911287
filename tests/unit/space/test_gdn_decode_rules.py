"""Which kernels verify drafts in GatedDeltaNet layers: where the CUDA one serves, by GPU, model and step."""

from __future__ import annotations

import pytest

from configs.models import ModelProfile, load_model_profile
from experiments.space.configuration import KnobValue
from experiments.space.gdn_decode_rules import GDN_DECODE, decode_same
from experiments.space.gpu import Gpu
from experiments.space.gpu_rules import not_served_by, refused_on, same_on
from experiments.space.legality import ModelFacts, joint_refusal
from experiments.space.loading import load_space

SPACE = load_space("vllm")
MODEL = load_model_profile("qwen3.5-9b")
MTP: dict[str, KnobValue] = {"drafting.method": "mtp", "drafting.draft_tokens": 4}


def refused(model: ModelProfile, gpu: Gpu) -> str | None:
    assert (GDN_DECODE, "triton") not in not_served_by(SPACE, model, gpu)
    return not_served_by(SPACE, model, gpu).get((GDN_DECODE, "cuda"))


@pytest.mark.parametrize(
    ("shape", "gpu", "words"),
    [
        ({}, Gpu("8.0"), None),
        ({}, Gpu(None), None),
        ({}, Gpu("7.5"), "from compute capability 8.0 on, and this GPU has 7.5."),
        ({"gdn_k_head_dim": 64}, Gpu("9.0"), "heads of 128 alone, and those of keys have 64."),
        ({"gdn_v_head_dim": 64}, Gpu("9.0"), "heads of 128 alone, and those of values have 64."),
        ({"gdn_k_heads": 2, "gdn_v_heads": 12}, Gpu("9.0"), "and here 6 share one."),
        (
            {},
            Gpu("9.0", version=(0, 28)),
            "In 0.28 vLLM's CUDA kernel for GatedDeltaNet layers serves 8 heads",
        ),
        ({"gdn_k_heads": 2, "gdn_v_heads": 16}, Gpu("9.0", version=(0, 28)), None),
        ({}, Gpu("9.0", version=(0, 29)), None),
    ],
)
def test_the_cuda_kernel_is_refused_where_vllm_would_not_run_it(
    shape: dict[str, int], gpu: Gpu, words: str | None
) -> None:
    why = refused(MODEL.model_copy(update=shape), gpu)
    assert (why is None) if words is None else (words in str(why))
    found = refused_on({GDN_DECODE: "cuda"}, MODEL.model_copy(update=shape), gpu)
    assert found == (None if why is None else (GDN_DECODE, "cuda", why))


@pytest.mark.parametrize(
    ("knobs", "told"),
    [
        ({}, None),
        ({"serving.dtype": "float16"}, "bfloat16 alone, and serving.dtype is float16: leave"),
        ({"drafting.method": "ngram", "drafting.draft_tokens": 7}, None),
        ({"drafting.method": "ngram", "drafting.draft_tokens": 8}, "7 drafts at most, and drafting"),
    ],
)
def test_a_step_that_the_cuda_kernel_does_not_take_is_refused_beside_it_alone(
    knobs: dict[str, KnobValue], told: str | None
) -> None:
    facts = ModelFacts.of(MODEL)
    for kernel in ("auto", "triton", "cuda"):
        configuration = SPACE.configuration({**MTP, **knobs, GDN_DECODE: kernel})
        why = joint_refusal(configuration, facts)
        assert (why is None) if told is None or kernel != "cuda" else (told in str(why)), why


def test_what_vllm_chooses_by_itself_is_the_same_as_auto_in_the_versions_that_were_read() -> None:
    for gpu, same in (
        (Gpu("9.0", version=(0, 33)), "cuda"),
        (Gpu("9.0", version=(0, 29)), "cuda"),
        (Gpu("7.5", version=(0, 32)), "triton"),
    ):
        found = same_on(SPACE, MODEL, gpu)
        assert [value for knob, value in found if knob == GDN_DECODE] == [same]
    for gpu in (
        Gpu("9.0"),
        Gpu(None, version=(0, 33)),
        Gpu("9.0", version=(0, 34)),
        Gpu("9.0", version=(0, 28)),
    ):
        assert {decode_same(value, MODEL, gpu) for value in ("cuda", "triton", "auto")} == {None}


def test_it_is_a_choice_where_something_drafts_alone() -> None:
    assert GDN_DECODE not in SPACE.configuration({})
    assert SPACE.configuration(MTP)[GDN_DECODE] == "auto"
    drafting = SPACE.configuration(MTP)
    assert SPACE.levers_between(SPACE.configuration({}), drafting) == ("drafting",)
    chosen = SPACE.with_change(drafting, {GDN_DECODE: "triton"})
    assert SPACE.levers_between(drafting, chosen) == ("gdn_decode",)
    assert SPACE.pinned_keys(drafting, chosen) == ("gdn.decode",)
