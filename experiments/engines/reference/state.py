"""The state of a sequence between decode steps, and going back to any token of the last step.

Keys and values lie in buffers of fixed capacity: what a rejected draft wrote there is written again before
anything sees it. States of GatedDeltaNet layers are inputs and outputs of a step, which gives them after
each token; `keep` takes those after the last token that stands, as views: nothing is copied, nothing computed
again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers.cache_utils import Cache, LinearAttentionCacheLayerMixin
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM

from experiments.engines.reference.checkpoint import layer_kinds
from experiments.engines.reference.gated_delta import window_after


@dataclass
class SequenceState:
    """Two tensors for each layer, and two more for the MTP head where there is one.

    Attention and head: keys and values, each `[1, kv heads, capacity, head dimensions]` in the model's dtype.
    GatedDeltaNet: the convolution's window `[kernel − 1, channels]` in the model's dtype and the recurrent
    state `[value heads, key dimensions, value dimensions]` in float32. `position` is how many tokens are
    read.
    """

    kinds: tuple[str, ...]
    layers: list[Tensor]
    position: int = 0

    @classmethod
    def allocate(cls, model: Qwen3_5ForCausalLM, capacity: int, *, head: bool = False) -> SequenceState:
        """A zeroed state."""
        config, device, dtype = model.config, model.device, model.dtype
        kinds = layer_kinds(model)
        channels = (
            2 * config.linear_num_key_heads * config.linear_key_head_dim
            + config.linear_num_value_heads * config.linear_value_head_dim
        )
        heads = config.linear_num_value_heads
        recurrent = (heads, config.linear_key_head_dim, config.linear_value_head_dim)
        keys = (1, config.num_key_value_heads, capacity, config.head_dim)
        layers: list[Tensor] = []
        for kind in (*kinds, *(("full_attention",) if head else ())):
            if kind == "linear_attention":
                window = (config.linear_conv_kernel_dim - 1, channels)
                layers.append(torch.zeros(window, dtype=dtype, device=device))
                layers.append(torch.zeros(recurrent, dtype=torch.float32, device=device))
            else:
                layers += [torch.zeros(keys, dtype=dtype, device=device) for _ in range(2)]
        return cls(kinds, layers)

    def inputs(self, *, head: bool = False) -> tuple[Tensor, ...]:
        """The state as a step takes it, with the head's part or without."""
        return tuple(self.layers if head else self.layers[: 2 * len(self.kinds)])

    def begin(self, cache: Cache, tokens: int) -> None:
        """Take over what a prefill of so many tokens left in transformers' cache."""
        for index, layer in enumerate(cache.layers):
            if isinstance(layer, LinearAttentionCacheLayerMixin):
                seen, recurrent = layer.conv_states[0], layer.recurrent_states[0]
                assert seen is not None, "the cache must come from a prefill"
                assert recurrent is not None
                window = len(self.layers[2 * index])
                self.layers[2 * index] = seen[0, :, -window:].T.contiguous()
                self.layers[2 * index + 1] = recurrent[0].to(
                    torch.float32, copy=True, memory_format=torch.contiguous_format
                )
            else:
                for offset, source in enumerate((layer.keys, layer.values)):
                    assert source is not None, "the cache must come from a prefill"
                    self.layers[2 * index + offset][:, :, :tokens].copy_(source)
        self.position = tokens

    def keep(self, gated_delta: Sequence[Tensor], tokens: int, kept: int) -> None:
        """Stand where `kept` (one at least) of a step's `tokens` tokens are read and the others never were.

        `gated_delta` are the step's outputs for the GatedDeltaNet layers.
        """
        outputs = iter(gated_delta)
        for index, kind in enumerate(self.kinds):
            if kind == "linear_attention":
                self.layers[2 * index] = window_after(next(outputs), tokens, kept)
                self.layers[2 * index + 1] = next(outputs)[kept - 1]
        self.position += kept

    def mark(self) -> tuple[int, tuple[Tensor, ...]]:
        """Where the sequence stands, for `back_to`; costs nothing but references."""
        return self.position, tuple(self.layers)

    def back_to(self, mark: tuple[int, tuple[Tensor, ...]]) -> None:
        """Stand where a mark of this sequence was made; what was read since never was."""
        self.position, layers = mark
        self.layers = list(layers)
