"""The experts' layers are found by what they hold, counted once, and none of them keeps a cache."""

from enum import Enum
from types import ModuleType, SimpleNamespace

import pytest

pytest.importorskip("torch")

import torch
from torch import nn

from experiments.engines.vllm import served_weights
from experiments.engines.vllm.describe import _linear_kernel, gdn_and_attention
from experiments.engines.vllm.served_experts import experts_kernel, experts_told
from experiments.space.loading import load_space

HIDDEN, INTERMEDIATE, COUNT, PER_TOKEN = 8, 4, 6, 2


class Backend(Enum):
    TRITON = "Triton"


class TritonExperts: ...


class UnquantizedFusedMoEMethod:
    unquantized_backend = Backend.TRITON
    experts_cls = TritonExperts


class RoutedExperts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w13_weight = nn.Parameter(torch.zeros(COUNT, 2 * INTERMEDIATE, HIDDEN, dtype=torch.bfloat16))
        self.w2_weight = nn.Parameter(torch.zeros(COUNT, HIDDEN, INTERMEDIATE, dtype=torch.bfloat16))
        self.quant_method = UnquantizedFusedMoEMethod()
        self.moe_config = SimpleNamespace(
            num_experts=COUNT, experts_per_token=PER_TOKEN, hidden_dim=HIDDEN, intermediate_size=INTERMEDIATE
        )


class LinearBase(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(outputs, inputs, dtype=torch.bfloat16))
        self.input_size, self.output_size = inputs, outputs


class MoERunner(nn.Module):
    """Schedules: it holds the experts, and what stands beside them once more."""

    def __init__(self, gate: nn.Module, shared: nn.Module) -> None:
        super().__init__()
        self.moe_config = SimpleNamespace(num_experts=COUNT)
        self.gate, self.shared_experts, self.routed_experts = gate, shared, RoutedExperts()


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.shared_expert = LinearBase(HIDDEN, COUNT), nn.Module()
        self.shared_expert.gate_up_proj = LinearBase(HIDDEN, 2 * INTERMEDIATE)
        self.experts = MoERunner(self.gate, self.shared_expert)


def mixture(layers: int = 3) -> nn.Module:
    model = nn.Module()
    model.layers = nn.ModuleList([nn.Module() for _ in range(layers)])
    for layer in model.layers:
        layer.mlp = Mlp()
    return model


EACH = 3 * HIDDEN * INTERMEDIATE


def test_the_experts_of_all_layers_are_told_with_what_a_token_computes() -> None:
    assert experts_told(mixture(3)) == {
        "bytes": 3 * COUNT * EACH * 2,
        "count": COUNT,
        "per_token": PER_TOKEN,
        "operations": 3 * PER_TOKEN * EACH * 2,
    }
    assert experts_told(nn.Linear(2, 2)) is None


def test_what_computes_experts_is_told_and_is_no_linear_kernel() -> None:
    assert experts_kernel(mixture()) == {"backend": "TRITON", "class": "TritonExperts"}
    assert experts_kernel(nn.Linear(2, 2)) is None
    assert "MoE" not in _linear_kernel(mixture())


def test_experts_that_two_kernels_compute_are_told_with_both() -> None:
    model = mixture(2)
    other = SimpleNamespace(
        wna16_backend=SimpleNamespace(name="MARLIN"), experts_cls=type("MarlinExperts", (), {})
    )
    model.layers[1].mlp.experts.routed_experts.quant_method = other
    assert experts_kernel(model) == {"backend": "MARLIN, TRITON", "class": "MarlinExperts, TritonExperts"}


def test_a_value_of_the_knob_reads_as_the_backend_that_it_asks_for() -> None:
    knob = load_space("vllm").knob("serving.moe_backend")
    read = {value: knob.reads_as("experts_kernel.backend", value) for value in knob.values}
    # the names of the enums UnquantizedMoeBackend, Fp8MoeBackend and WNA16MoEBackend
    assert read == {value: None if value == "auto" else str(value).upper() for value in knob.values}


def test_what_stands_beside_experts_counts_once_though_it_is_held_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    linear = ModuleType("vllm.model_executor.layers.linear")
    linear.LinearBase = LinearBase  # type: ignore[attr-defined]
    monkeypatch.setitem(__import__("sys").modules, "vllm.model_executor.layers.linear", linear)
    found = served_weights._weight_bytes(mixture(3))
    assert found == {"shared_expert": 3 * 2 * (HIDDEN * COUNT + HIDDEN * 2 * INTERMEDIATE)}


def test_experts_are_no_attention() -> None:
    attention = SimpleNamespace(attn_backend=None)
    layers = {"a": attention, "b": MoERunner(nn.Module(), nn.Module())}
    config = SimpleNamespace(compilation_config=SimpleNamespace(static_forward_context=layers))
    assert gdn_and_attention(config) == ([], [attention])
