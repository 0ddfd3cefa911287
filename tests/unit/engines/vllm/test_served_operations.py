"""How many multiplications and additions attention and GatedDeltaNet states take, from what layers hold."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from experiments.engines.vllm.served_operations import attention_operations, state_operations


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
