"""How many multiplications and additions attention and GatedDeltaNet states take, from what layers hold."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from experiments.engines.vllm.served_operations import (
    attention_operations,
    spared_operations,
    state_operations,
)


def attention(heads: int, size: int, dtype: torch.dtype = torch.bfloat16, **other: Any) -> SimpleNamespace:
    cache = torch.zeros(2, 4, 16, heads, size, dtype=dtype)
    return SimpleNamespace(num_heads=heads, head_size=size, kv_cache=cache, **other)


def test_a_pair_of_tokens_takes_a_score_and_a_value_of_every_head_in_every_layer() -> None:
    """What a product of matrices of those sizes takes: 2 · rows · inner · columns."""
    heads, size, layers = 4, 8, 3
    score, value = 2 * 1 * size * 1, 2 * 1 * 1 * size
    assert attention_operations([attention(heads, size)] * layers) == layers * heads * (score + value)


def test_values_of_another_size_are_counted_with_theirs() -> None:
    assert attention_operations([attention(4, 8, head_size_v=2)]) == 4 * (2 * 8 + 2 * 2)


@pytest.mark.parametrize(
    "layer",
    [
        attention(4, 8, dtype=torch.float8_e4m3fn),
        attention(4, 8, sliding_window=128),
        SimpleNamespace(kv_cache=torch.zeros(1)),
        SimpleNamespace(num_heads=4, head_size=8),
    ],
    ids=["8-bit cache", "window", "sizes not told", "no cache"],
)
def test_a_layer_that_may_take_less_or_of_which_sizes_are_not_told_counts_nothing(layer: Any) -> None:
    assert attention_operations([layer]) == 0


def test_a_token_takes_three_products_with_the_state_of_every_head() -> None:
    heads, values, keys, slots = 4, 6, 8, 5
    state = torch.zeros(slots, heads, values, keys)
    assert state_operations([state, state]) == 2 * heads * 3 * (2 * values * keys)
    assert state_operations([]) == 0


def chunk_operations(tokens: int, keys: int, values: int, sharing: int, *, first: bool) -> float:
    """Of a head's recurrence over a chunk: causal products of keys and queries with keys, which as many heads
    may share, of both with values, the state after it, and, where there was one before, what keys and queries
    read of that."""
    before_it, with_it = tokens * (tokens - 1) // 2, tokens * (tokens + 1) // 2
    within = 2 * (keys / sharing + values) * (before_it + with_it)
    return within + 2 * tokens * keys * values * (1 if first else 3)


@pytest.mark.parametrize("sharing", [1, 2, 8])
@pytest.mark.parametrize(("keys", "values"), [(128, 128), (64, 128), (7, 3)])
@pytest.mark.parametrize("tokens", [1, 16, 32, 64, 128, 200, 512])
def test_no_way_to_compute_a_prompt_by_chunks_takes_less_than_what_is_counted(
    tokens: int, keys: int, values: int, sharing: int
) -> None:
    """In chunks of one size, and with a first chunk of any size before the rest token by token."""
    state = torch.zeros(1, 1, values, keys)
    counted = tokens * state_operations([state]) - spared_operations([state])
    cut = [[size] * (tokens // size) + [tokens % size] for size in (16, 64, 256)]
    cut += [[first] + [1] * (tokens - first) for first in range(1, tokens + 1)]
    for chunks in cut:
        sizes = [size for size in chunks if size]
        assert sum(sizes) == tokens
        ways = (chunk_operations(size, keys, values, sharing, first=n == 0) for n, size in enumerate(sizes))
        assert counted <= sum(ways), chunks


def test_what_the_first_tokens_may_spare_is_no_more_than_what_many_heads_of_the_same_keys_do() -> None:
    state = torch.zeros(1, 1, 128, 128)
    first = chunk_operations(128, 128, 128, 1_000_000, first=True)
    assert 128 * state_operations([state]) - spared_operations([state]) == pytest.approx(first, rel=1e-5)
    several = torch.zeros(5, 4, 128, 128)
    assert spared_operations([several, several]) == 2 * 4 * spared_operations([state])
