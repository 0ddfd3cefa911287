import pytest
import torch
from torch import Tensor

from experiments.reference_model.delta_rule import (
    causal_short_convolution,
    gated_delta_rule,
    unit_length,
    unit_lower_inverse,
)


def _token_by_token(query: Tensor, key: Tensor, value: Tensor, log_decay: Tensor, beta: Tensor) -> Tensor:
    """The rule as its definition says it, one token after the other."""
    query, key = unit_length(query) * query.shape[-1] ** -0.5, unit_length(key)
    batch, tokens, heads, size = query.shape
    state = torch.zeros(batch, heads, size, value.shape[-1], dtype=query.dtype)
    outputs = []
    for index in range(tokens):
        state = state * log_decay[:, index].exp()[..., None, None]
        known = torch.einsum("bhk,bhkv->bhv", key[:, index], state)
        correction = (value[:, index] - known) * beta[:, index].unsqueeze(-1)
        state = state + torch.einsum("bhk,bhv->bhkv", key[:, index], correction)
        outputs.append(torch.einsum("bhk,bhkv->bhv", query[:, index], state))
    return torch.stack(outputs, 1)


@pytest.mark.parametrize("seed", range(3))
def test_the_chunked_rule_is_the_rule_token_by_token(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    shape = (2, 192, 3, 8)
    query, key, value = (torch.randn(shape, generator=generator) for _ in range(3))
    log_decay = -torch.rand(shape[:3], generator=generator) * 0.5
    beta = torch.rand(shape[:3], generator=generator)
    chunked = gated_delta_rule(query, key, value, log_decay, beta, products=torch.float32)
    expected = _token_by_token(*(part.double() for part in (query, key, value, log_decay, beta)))
    assert (chunked - expected).norm() / expected.norm() < 1e-5


def test_equal_keys_do_not_break_the_inverse() -> None:
    key = torch.ones(1, 128, 1, 8)
    value = torch.randn(1, 128, 1, 8, generator=torch.Generator().manual_seed(0))
    still, full = torch.zeros(1, 128, 1), torch.ones(1, 128, 1)
    chunked = gated_delta_rule(key, key, value, still, full, products=torch.float32)
    expected = _token_by_token(*(part.double() for part in (key, key, value, still, full)))
    assert (chunked - expected).norm() / expected.norm() < 1e-3  # a tenth of what bfloat16 rounds away


def test_the_inverse_is_one() -> None:
    lower = torch.randn(2, 64, 64, generator=torch.Generator().manual_seed(0)).mul(0.1).tril(-1)
    identity = torch.eye(64)
    assert torch.allclose(
        (identity + lower) @ unit_lower_inverse(lower), identity.expand(2, 64, 64), atol=1e-4
    )


def test_the_convolution_sees_no_token_to_come() -> None:
    weight = torch.randn(5, 1, 4, generator=torch.Generator().manual_seed(0))
    channels = torch.randn(1, 10, 5, generator=torch.Generator().manual_seed(1))
    changed = channels.clone()
    changed[:, 6:] += 1.0
    before, after = (causal_short_convolution(each, weight) for each in (channels, changed))
    assert torch.equal(before[:, :6], after[:, :6])
    assert not torch.equal(before[:, 6], after[:, 6])
