"""Multiplications and additions of what has no weights, attention and GatedDeltaNet states, from what vLLM's
layers hold. In vLLM's worker.

They are floors, so each is the least that its definition takes, whatever a kernel does beside.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from experiments.engines.vllm.describe import layer_caches

A_PRODUCT = 2
"""A multiplication and an addition for each number."""

STATE_PRODUCTS = 3
"""Products of a token with a GatedDeltaNet state; see `state_operations`."""

LEAST_CACHE_BYTES = 2
"""Bytes a number of keys and values below which their products may be faster than those in 16 bits."""


def attention_operations(layers: Iterable[Any]) -> int:
    """Operations of one token that looks at one, itself or another, in all layers together.

    A head's score is a product of two vectors of its size, and its value is added with that as its weight:
    2 · (size + size of values). A causal prompt of T tokens has T · (T + 1) / 2 such pairs. None is counted
    of layers with caches in 8 bits, with a window, or of which vLLM tells no sizes.
    """
    return sum(_of_a_pair(layer) for layer in layers)


def state_operations(states: Iterable[Any]) -> int:
    """Operations of one token in the recurrences of GatedDeltaNet layers, whose states are of the shape
    [slots, heads, size of values, size of keys].

    The gated delta rule (Yang, Kautz and Hatamizadeh, arXiv:2412.06464) is S_t = α_t S_{t−1} (I − β_t k_t
    k_tᵀ) + β_t v_t k_tᵀ and o_t = S_t q_t: the state times the key, what is added to it, and the state times
    the query, 2 · keys · values each. Computed by chunks these three stay, as products of matrices with the
    state before the chunk, and those within a chunk come on top; but a first chunk has no state before it,
    for which `spared_operations` are taken off a prompt's. Scaling by α is not counted.
    """
    return sum(STATE_PRODUCTS * A_PRODUCT * int(state[0].numel()) for state in states)


def spared_operations(states: Iterable[Any]) -> int:
    """The most operations that a prompt can take less than `state_operations` for each of its tokens, in the
    layers of these states.

    The state before a prompt is 0, so its first n tokens, read as one chunk, take 2 · n² · values, causal
    products of what is added and of what is read out, and 2 · n · keys · values for the state after them;
    products of keys with keys and queries are left out, for heads may share them. That spares most where n is
    the size of keys: 2 · keys² · values. A prompt shorter than a third of that size counts nothing.
    """
    found = 0
    for state in states:
        heads, values, keys = map(int, state.shape[1:])
        found += heads * 2 * keys**2 * values
    return found


def _of_a_pair(layer: Any) -> int:
    caches = layer_caches(layer)
    if not caches or caches[0].element_size() < LEAST_CACHE_BYTES or getattr(layer, "sliding_window", None):
        return 0
    heads, size = int(getattr(layer, "num_heads", 0)), int(getattr(layer, "head_size", 0))
    return A_PRODUCT * heads * (size + int(getattr(layer, "head_size_v", None) or size))
