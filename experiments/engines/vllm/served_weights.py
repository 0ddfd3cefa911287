"""What one decode step of a loaded model reads, by part, from the tensors that vLLM holds. In vLLM's worker.

Parts as in `kernel_parts.py`; a linear layer's part is its own last name. Nothing of a checkpoint is looked
at, so quantized, merged and padded weights count as they lie in memory, and weights that were never loaded
(a shape alone) count too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from experiments.engines.vllm.describe import gdn_and_attention, layer_caches
from experiments.engines.vllm.served_experts import (
    EXPERTS,
    expert_layers,
    experts_told,
    linear_part,
)
from experiments.engines.vllm.served_operations import (
    attention_operations,
    spared_operations,
    state_operations,
)
from experiments.measurement.evidence import Json

_NOT_TEXT = ("visual", "vision_tower", "mtp", "audio_tower")


def read_by_step(runner: Any, draft_tokens: int, draft_passes: int) -> dict[str, Json]:
    """Classes of the linear layers in the order of a step, bytes of weights by part, and of the caches.

    `weight_bytes` has a part `draft` where a model drafts: its weights, and the output head that it shares,
    once for each of its passes in a step, `draft_passes`. What is told of `experts` (`experts_told`) stands
    beside, and of a drafter's under `draft_experts`, for what is read of them depends on how many tokens a
    step has. `operations` are the
    multiplications and additions of one token in the linear layers, by part, and in the output head;
    `attention_operations` are those of one token that looks at one, 0 where a drafter's layers are among the
    model's, and `state_operations` those of one in the GatedDeltaNet recurrences, of which a prompt may spare
    `spared_operations`. `state_bytes` are those of one sequence's GatedDeltaNet states and `conv_bytes` of
    its windows, each read once and written once for every token of a step; `kv_bytes_per_token` are those of
    one token in all layers' caches.
    """
    model = runner.get_model()
    weights, experts = _weight_bytes(model), experts_told(model)
    drafter = _draft_model(runner)
    if drafter is not None:
        own = _weight_bytes(drafter)
        head = own.pop("lm_head", 0) or weights.get("lm_head", 0)
        weights["draft"] = draft_passes * (sum(own.values()) + head)
    drafts_with = None if drafter is None else experts_told(drafter)
    gdn, attention = gdn_and_attention(runner.vllm_config)
    caches = [layer_caches(layer) for layer in gdn]
    states = [found[-1] for found in caches if found]
    slots = draft_tokens + 2
    return {
        "linears": [name for name, _ in _linears(model)],
        "weight_bytes": {part: int(count) for part, count in weights.items()},
        **({} if experts is None else {"experts": {**experts}}),
        **({} if drafts_with is None else {"draft_experts": {**drafts_with, "passes": draft_passes}}),
        "operations": {part: int(count) for part, count in _operations(model).items()},
        "attention_operations": 0 if drafter is not None else attention_operations(attention),
        "state_operations": state_operations(states),
        "spared_operations": spared_operations(states),
        "state_bytes": slots * sum(map(_slot_bytes, states)),
        "conv_bytes": 2 * sum(_slot_bytes(found[0]) for found in caches if len(found) > 1),
        "kv_bytes_per_token": sum(map(_token_bytes, attention)),
    }


def _linears(model: Any) -> Iterator[tuple[str, Any]]:
    """The linear layers that a step calls, with the last part of their name, in order."""
    from vllm.model_executor.layers.linear import LinearBase

    for name, module in model.named_modules():
        words = name.split(".")
        if isinstance(module, LinearBase) and words[-1] != "conv1d" and not _skipped(words):
            yield linear_part(words), module


def _weight_bytes(model: Any) -> dict[str, int]:
    linears = {id(module): part for part, module in _linears(model)}
    experts, counted = {id(layer) for layer in expert_layers(model)}, set[int]()
    found: dict[str, int] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        words = name.split(".")
        own = list(module.parameters(recurse=False))
        # what computes experts holds what stands beside them once more
        if (
            not own
            or _skipped(words)
            or id(module) in experts
            or (EXPERTS in words and id(module) in counted)
        ):
            continue
        counted.add(id(module))
        size = sum(each.numel() * each.element_size() for each in own)
        if id(module) in linears:
            part = linears[id(module)]
            size = size or _packed_bytes(module, own)
        elif words[-1] == "lm_head":
            part = "lm_head"
        elif words[-1] == "embed_tokens":
            part, size = "small", size // max(1, own[0].shape[0])
        elif "conv1d" in words:
            part = "conv1d"
        elif words[-1] == "linear_attn":
            part = "gdn_state"
        else:
            part = "small"
        found[part] = found.get(part, 0) + size
    return found


def _operations(model: Any) -> dict[str, int]:
    """Multiplications and additions of one token, two a weight, whatever the weights are stored as."""
    found: dict[str, int] = {}
    for part, module in _linears(model):
        found[part] = found.get(part, 0) + 2 * _size(module)
    for name, module in model.named_modules(remove_duplicate=False):
        if name.split(".")[-1] == "lm_head" and not _skipped(name.split(".")):
            rows = int(getattr(module, "num_embeddings_per_partition", 0))
            found["lm_head"] = 2 * rows * int(getattr(module, "embedding_dim", 0))
    return found


def _size(module: Any) -> int:
    """Weights of a linear layer by its sizes."""
    rows = getattr(module, "output_size_per_partition", getattr(module, "output_size", 0))
    columns = getattr(module, "input_size_per_partition", getattr(module, "input_size", 0))
    return int(rows) * int(columns)


def _packed_bytes(module: Any, own: list[Any]) -> int:
    """Bytes of a weight that a kernel for CPUs has packed away, leaving an empty one."""
    return _size(module) * int(own[0].element_size())


def _skipped(words: list[str]) -> bool:
    return any(word in _NOT_TEXT for word in words)


def _draft_model(runner: Any) -> Any:
    for name in ("drafter", "speculator"):
        model = getattr(getattr(runner, name, None), "model", None)
        if isinstance(model, torch.nn.Module):
            return model
    return None


def _slot_bytes(cache: Any) -> int:
    return int(cache[0].numel() * cache.element_size())


def _token_bytes(layer: Any) -> int:
    """Bytes of keys and values that a token takes in a layer's cache; 0 where they can't be told."""
    heads, size = getattr(layer, "num_kv_heads", 0), getattr(layer, "head_size", 0)
    caches = layer_caches(layer)
    return 2 * int(heads) * int(size) * int(caches[0].element_size()) if caches else 0
