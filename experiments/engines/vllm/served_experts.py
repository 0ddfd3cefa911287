"""The experts of a Mixture of Experts, from vLLM's layers that hold them. In vLLM's worker.

What of them a step reads depends on how many tokens it has: `read_of_experts.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

EXPERTS, SHARED_EXPERT = "experts", "shared_expert"
"""Parts of a profile: the experts that a router sends tokens to; and what every token goes through beside
them, the router's product and that of the shared expert's gate among it."""

ROUTER, SHARED_GATE = "gate", "shared_expert_gate"
"""The last names of these two products (vLLM 0.32 and 0.33, `Qwen3NextSparseMoeBlock`)."""

A_PRODUCT = 2
"""A multiplication and an addition for each weight."""


def expert_layers(model: Any) -> Iterator[Any]:
    """The layers that hold the experts' weights; what schedules them has a `moe_config` too, and none."""
    for module in model.modules():
        if hasattr(module, "moe_config") and any(True for _ in module.parameters(recurse=False)):
            yield module


def experts_told(model: Any) -> dict[str, int] | None:
    """Of the experts of all layers together: their `bytes` as they lie in memory, how many a layer has
    (`count`), how many a token goes through (`per_token`), and the multiplications and additions of one token
    in these (`operations`). None of a dense model."""
    layers = list(expert_layers(model))
    if not layers:
        return None
    told = layers[0].moe_config
    return {
        "bytes": sum(map(_bytes, layers)),
        "count": int(told.num_experts),
        "per_token": int(told.experts_per_token),
        "operations": sum(A_PRODUCT * _weights_of_a_token(layer) for layer in layers),
    }


def experts_kernel(model: Any) -> dict[str, str] | None:
    """What computes the experts: vLLM's `backend` and the `class` that runs it, of layers that differ each
    one; None of a dense model."""
    layers = list(expert_layers(model))
    if not layers:
        return None
    return {"backend": _each(map(_backend, layers)), "class": _each(map(_class, layers))}


def linear_part(words: list[str]) -> str:
    """The part of a linear layer by the words of its name: its own last one, and one for all that stands
    beside experts, whose order in a step is not that in the model."""
    beside = SHARED_EXPERT in words or words[-1] == SHARED_GATE or words[-2:] == ["mlp", ROUTER]
    return SHARED_EXPERT if beside else words[-1]


def _each(names: Iterable[str]) -> str:
    return ", ".join(sorted(set(names)))


def _backend(layer: Any) -> str:
    method = getattr(layer, "quant_method", None)
    backends = (getattr(method, f"{kind}_backend", None) for kind in ("unquantized", "fp8", "wna16"))
    backend = next((each for each in backends if each is not None), None)
    return getattr(backend, "name", None) or type(method).__name__


def _class(layer: Any) -> str:
    method = getattr(layer, "quant_method", None)
    return getattr(getattr(method, "experts_cls", None), "__name__", None) or type(method).__name__


def _bytes(layer: Any) -> int:
    return sum(each.numel() * each.element_size() for each in layer.parameters(recurse=False))


def _weights_of_a_token(layer: Any) -> int:
    told = layer.moe_config  # gate_proj, up_proj and down_proj of each
    return 3 * int(told.experts_per_token) * int(told.hidden_dim) * int(told.intermediate_size)
