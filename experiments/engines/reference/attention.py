"""Attention over buffers of fixed length, as transformers' attention layers can use them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor


class KeyValueBuffers:
    """Keys and values of some layers in buffers of a fixed capacity; stands in for transformers' cache.

    Entries at and after a place are written again when tokens come for it, so a rejected draft leaves nothing
    behind that a mask shows. The last entry also takes what lies beyond the capacity, drafts past the end of
    a generation: a token that stands there is the generation's last, which nothing reads any more.
    """

    def __init__(self, places: Tensor, buffers: Mapping[int, tuple[Tensor, Tensor]]) -> None:
        """`places` are those of the tokens at hand, int64 `[tokens]`; `buffers` keys and values by layer."""
        self._places = places
        self._buffers = buffers

    def update(
        self, keys: Tensor, values: Tensor, layer: int, *unused: object, **unused_too: object
    ) -> tuple[Tensor, Tensor]:
        """Write these tokens' keys and values at their places; give the layer's whole buffers."""
        stored_keys, stored_values = self._buffers[layer]
        places = self._places.clamp(max=stored_keys.shape[2] - 1)
        stored_keys.index_copy_(2, places, keys)
        stored_values.index_copy_(2, places, values)
        return stored_keys, stored_values


def visible(places: Tensor, capacity: int) -> Tensor:
    """The causal mask of tokens at these places over a buffer: bool `[1, 1, tokens, capacity]`."""
    seen = torch.arange(capacity, device=places.device)[None, :] <= places[:, None]
    return seen[None, None]
