"""The decode step as a function of tensors of fixed shape, so that it can be compiled once and for all.

transformers' own cache grows by concatenation and is an object full of Python state; a compiler has to guard
every bit of it at every token. Here the state of a sequence lies in tensors that are allocated once for a
*capacity* (the most tokens of context) and changed in place; `DecodeStep` hands them to transformers' own
forward inside transformers' own `StaticCache`, so the arithmetic is the library's, not ours.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from transformers.cache_utils import Cache, LinearAttentionCacheLayerMixin, StaticCache, StaticLayer
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM

from experiments.engines.reference.checkpoint import layer_kinds

SMALLEST_CAPACITY = 256
"""Tokens of context that a step is compiled for at least; larger ones are this times a power of two."""


def capacity_for(tokens: int) -> int:
    """The capacity that holds `tokens` tokens of context."""
    capacity = SMALLEST_CAPACITY
    while capacity < tokens:
        capacity *= 2
    return capacity


class DecodeStep(nn.Module):
    """One token in, logits and the greedy next token out; the state is changed in place.

    `forward(token, position, *state)`: `token` int64 `[1, 1]`, `position` int64 `[]` (tokens already in the
    state), `state` two tensors a layer as `allocate_state` gives them. Returns logits `[1, vocabulary]` and
    the next token int64 `[1, 1]`.
    """

    def __init__(self, model: Qwen3_5ForCausalLM, capacity: int) -> None:
        super().__init__()
        self.model = model
        self.capacity = capacity

    def forward(
        self, token: torch.Tensor, position: torch.Tensor, *state: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """See the class."""
        cache = StaticCache(config=self.model.config, max_cache_len=self.capacity)
        for index, layer in enumerate(cache.layers):
            first, second = state[2 * index], state[2 * index + 1]
            if isinstance(layer, LinearAttentionCacheLayerMixin):
                layer.conv_states[0], layer.recurrent_states[0] = first, second
                layer.conv_kernel_size[0] = first.shape[-1]
                layer.is_conv_states_initialized[0] = layer.is_recurrent_states_initialized[0] = True
                layer.has_previous_state[0] = True
            elif isinstance(layer, StaticLayer):
                layer.keys, layer.values = first, second
                layer.dtype, layer.device = first.dtype, first.device
                layer.cumulative_length = position.clone()
                layer.is_initialized = True
        output = self.model(token, position_ids=position.view(1, 1), past_key_values=cache, use_cache=True)
        logits = output.logits[:, -1]
        return logits, logits.argmax(-1, keepdim=True)


def allocate_state(model: Qwen3_5ForCausalLM, capacity: int) -> tuple[torch.Tensor, ...]:
    """Zeroed tensors for one sequence, two a layer.

    GatedDeltaNet: convolution `[1, channels, kernel]` in the model's dtype, recurrent state
    `[1, value heads, key dimensions, value dimensions]` in float32. Attention: keys and values, each
    `[1, kv heads, capacity, head dimensions]` in the model's dtype.
    """
    config, device, dtype = model.config, model.device, model.dtype
    channels = (
        2 * config.linear_num_key_heads * config.linear_key_head_dim
        + config.linear_num_value_heads * config.linear_value_head_dim
    )
    shapes: dict[str, tuple[tuple[tuple[int, ...], torch.dtype], ...]] = {
        "linear_attention": (
            ((1, channels, config.linear_conv_kernel_dim), dtype),
            (
                (1, config.linear_num_value_heads, config.linear_key_head_dim, config.linear_value_head_dim),
                torch.float32,
            ),
        ),
        "full_attention": (((1, config.num_key_value_heads, capacity, config.head_dim), dtype),) * 2,
    }
    return tuple(
        torch.zeros(shape, dtype=kind, device=device)
        for layer in layer_kinds(model)
        for shape, kind in shapes[layer]
    )


def copy_state(cache: Cache, state: Sequence[torch.Tensor]) -> None:
    """Copy what a prefill left in transformers' cache into the fixed tensors."""
    for index, layer in enumerate(cache.layers):
        if isinstance(layer, LinearAttentionCacheLayerMixin):
            sources = (layer.conv_states[0], layer.recurrent_states[0])
        else:
            sources = (layer.keys, layer.values)
        for source, target in zip(sources, state[2 * index : 2 * index + 2], strict=True):
            assert source is not None, "the cache must come from a prefill"
            if source.shape != target.shape:  # keys and values: as many tokens as there are
                target = target[:, :, : source.shape[-2]]
            target.copy_(source)
