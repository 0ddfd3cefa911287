"""The linear kernel that is told is of what multiplies weights, not of a layer's other methods."""

from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

from torch import nn

from experiments.engines.vllm.describe import _drafting, _linear_kernel
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
