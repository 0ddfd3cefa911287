"""Which kernels read prompts in GatedDeltaNet layers: where FlashInfer's serve, by GPU and model."""

from __future__ import annotations

import pytest

from configs.models import load_model_profile
from experiments.space.gdn_prefill_rules import GDN_PREFILL
from experiments.space.gpu import Gpu
from experiments.space.gpu_rules import not_known_on, not_served_by, same_on
from experiments.space.loading import load_space

SPACE = load_space("vllm")
OF_128 = load_model_profile("qwen3.5-9b")
OF_64 = OF_128.model_copy(update={"gdn_k_head_dim": 64})
ON_HOPPER = Gpu("9.0")


def test_on_hopper_flashinfer_is_what_auto_runs_for_heads_that_it_serves() -> None:
    assert "both are the same" in same_on(SPACE, OF_128, ON_HOPPER)[GDN_PREFILL, "flashinfer"].why
    assert not {of for of in not_served_by(SPACE, OF_128, ON_HOPPER) if of[0] == GDN_PREFILL}
    assert not {of for of in not_known_on(SPACE, OF_128, ON_HOPPER) if of[0] == GDN_PREFILL}


def test_on_hopper_vllm_takes_flashinfer_for_heads_that_it_does_not_serve() -> None:
    assert (GDN_PREFILL, "flashinfer") not in same_on(SPACE, OF_64, ON_HOPPER)
    refused = not_served_by(SPACE, OF_64, ON_HOPPER)
    assert refused[GDN_PREFILL, "flashinfer"].endswith("and these have 64: vLLM would not load with it.")
    doubted = not_known_on(SPACE, OF_64, ON_HOPPER)
    assert "vLLM takes them there whatever the heads" in doubted[GDN_PREFILL, "auto"]
    assert not {(GDN_PREFILL, "triton")} & (refused.keys() | doubted.keys())


@pytest.mark.parametrize("capability", ["8.6", "10.0", "12.0"])
def test_elsewhere_vllm_runs_tritons_for_such_heads_and_auto_is_sure(capability: str) -> None:
    gpu = Gpu(capability)
    assert "vLLM would run Triton's instead" in not_served_by(SPACE, OF_64, gpu)[GDN_PREFILL, "flashinfer"]
    assert (GDN_PREFILL, "auto") not in not_known_on(SPACE, OF_64, gpu)
    assert "both are the same" in same_on(SPACE, OF_64, gpu)[GDN_PREFILL, "triton"].why


def test_below_what_triton_supports_it_is_not_known_whether_its_kernels_serve() -> None:
    """Nothing else reads prompts in GatedDeltaNet layers there, so `auto` is not known either."""
    for value in ("auto", "triton"):
        told = not_known_on(SPACE, OF_128, Gpu("7.5"))[GDN_PREFILL, value]
        assert told.startswith("Triton supports GPUs from compute capability 8.0 on, and this GPU has 7.5")
        assert told.endswith("and whether Triton's do was not tried; a load tells.")
        assert (GDN_PREFILL, value) not in not_known_on(SPACE, OF_128, Gpu("8.0"))
    attention = OF_128.model_copy(update={"layer_types": ("full_attention",) * 4})
    assert not {of for of in not_known_on(SPACE, attention, Gpu("7.5")) if of[0] == GDN_PREFILL}
