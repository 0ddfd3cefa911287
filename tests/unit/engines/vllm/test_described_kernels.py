"""The linear kernel that is told is of what multiplies weights, not of a layer's other methods."""

import pytest

pytest.importorskip("torch")

from torch import nn

from experiments.engines.vllm.describe import _linear_kernel


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
