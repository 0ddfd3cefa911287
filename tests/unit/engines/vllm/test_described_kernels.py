"""The linear kernel that is told is of what multiplies weights, not of a layer's other methods."""

from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

import torch
from torch import nn

from experiments.engines.vllm.describe import _drafting, _gdn_decode, _linear_kernel
from experiments.space.loading import load_space


class CompressedTensorsKVCacheMethod: ...


class UnquantizedEmbeddingMethod: ...


class UnquantizedLinearMethod: ...


class MarlinLinearKernel: ...


class CompressedTensorsLinearMethod: ...


class Scheme:
    kernel = MarlinLinearKernel()


def layer(method: object, scheme: object = None) -> nn.Module:
    module = nn.Module()
    module.quant_method = method
    module.scheme = scheme
    return module


def test_only_what_multiplies_weights_is_a_kernel() -> None:
    dense = [layer(CompressedTensorsKVCacheMethod()), layer(UnquantizedEmbeddingMethod())]
    dense.append(layer(UnquantizedLinearMethod()))
    assert _linear_kernel(nn.ModuleList(dense)) == "UnquantizedLinearMethod"
    quantized = [*dense, layer(CompressedTensorsLinearMethod(), Scheme())]
    assert _linear_kernel(nn.ModuleList(quantized)) == "MarlinLinearKernel"


def test_a_quantized_copy_of_the_output_head_is_told_of_what_drafts_and_the_models_own_is_not() -> None:
    config = SimpleNamespace(speculative_config=SimpleNamespace(method="mtp", num_speculative_tokens=2))
    knob = load_space("vllm").knob("drafting.lm_head")
    for value in ("fp8", "nvfp4"):
        name = knob.reads_as("drafting.drafter.lm_head", value)
        assert name is not None
        head = layer(type(name, (), {})())
        runner = SimpleNamespace(speculator=SimpleNamespace(model=SimpleNamespace(lm_head=head)))
        told = _drafting(config, runner)["drafter"]
        assert told == {"class": "SimpleNamespace", "lm_head": name}
    shared = SimpleNamespace(model=SimpleNamespace(lm_head=layer(UnquantizedEmbeddingMethod())))
    without = SimpleNamespace()
    for drafter in (shared, without):
        told = _drafting(config, SimpleNamespace(drafter=drafter))
        assert told["drafter"] == {"class": "SimpleNamespace"}


class GatedDeltaNet:
    """As vLLM's layer is once it is built: it takes seven drafts and an even share of heads at most.
    `named` is what it calls that it may run its fused kernel."""

    def __init__(self, kernel: str, *, heads: int = 2, named: str = "enable_fused_gdn_spec_decode") -> None:
        self.gdn_decode_kernel, self.heads = kernel, heads
        vars(self)[named] = kernel == "cuda"

    def _can_use_fused_gdn_mtp_decode(self, step: SimpleNamespace) -> bool:
        indices: torch.Tensor = step.spec_state_indices_tensor
        decodes = step.num_spec_decodes > 0 and step.num_decodes == 0 and step.spec_sequence_masks is not None
        return decodes and self.heads in (1, 2, 3, 4, 8) and indices.size(1) <= 8


def drafting(tokens: int) -> SimpleNamespace:
    return SimpleNamespace(speculative_config=SimpleNamespace(num_speculative_tokens=tokens))


def test_the_kernel_that_verifies_drafts_is_the_one_that_the_layer_runs_and_not_what_was_asked_for() -> None:
    fused, wide, triton = GatedDeltaNet("cuda"), GatedDeltaNet("cuda", heads=6), GatedDeltaNet("triton")
    assert _gdn_decode(drafting(7), [fused, fused]) == {"decode": "cuda"}
    assert _gdn_decode(drafting(8), [fused]) == {"decode": "triton"}
    assert _gdn_decode(drafting(1), [wide]) == {"decode": "triton"}
    assert _gdn_decode(drafting(1), [triton]) == {"decode": "triton"}
    assert _gdn_decode(drafting(1), [fused, triton]) == {"decode": "cuda, triton"}
    assert _gdn_decode(drafting(1), [GatedDeltaNet("CPU")]) == {"decode": "cpu"}
    assert _gdn_decode(drafting(1), [SimpleNamespace(gdn_decode_kernel="cuda")]) == {"decode": "unknown"}


def test_the_layer_of_0_28_to_0_31_names_it_otherwise_and_0_28_says_triton_of_a_cpu() -> None:
    fused = GatedDeltaNet("cuda", named="enable_fused_gdn_decode")
    assert _gdn_decode(drafting(7), [fused]) == {"decode": "cuda"}
    assert _gdn_decode(drafting(8), [fused]) == {"decode": "triton"}
    unnamed = GatedDeltaNet("cuda", named="no_name_that_was_read")
    assert _gdn_decode(drafting(1), [unnamed]) == {"decode": "unknown"}

    def forward_cpu() -> None: ...

    on_a_cpu = GatedDeltaNet("triton", named="enable_fused_gdn_decode")
    vars(on_a_cpu)["_forward_method"] = forward_cpu
    assert _gdn_decode(drafting(1), [on_a_cpu]) == {"decode": "cpu"}


def test_what_verifies_drafts_is_not_told_without_drafts_nor_by_a_version_without_the_choice() -> None:
    assert _gdn_decode(SimpleNamespace(speculative_config=None), [GatedDeltaNet("cuda")]) == {}
    assert _gdn_decode(drafting(1), [SimpleNamespace(gdn_prefill_backend="triton")]) == {}
