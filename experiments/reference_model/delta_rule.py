"""The gated delta rule over whole sequences, in chunks, for training.

The rule (Gated DeltaNet, arXiv 2412.06464) carries a state S of `key size × value size` per head:

    S_t = a_t S_{t-1} + k_t (β_t (v_t − a_t S_{t-1}ᵀ k_t))ᵀ,    o_t = S_tᵀ q_t / √(key size)

with a_t = exp(g_t) ≤ 1. Inside a chunk of C tokens the corrections depend on one another through a unit lower
triangular C × C system; with its inverse T the chunk is a handful of matrix products, and only one state per
chunk is passed on (the WY form of the same paper). The inverse is built from blocks of 16, each by repeated
squaring: all of it is batched matrix products, which a GPU and `torch.compile` like better than a triangular
solve.
"""

import torch
from torch import Tensor
from torch.nn import functional

CHUNK_TOKENS = 64
"""Tokens of a chunk; longer chunks cost more arithmetic, shorter ones more steps."""

INVERSE_BLOCK = 16
"""Blocks inverted by squaring: the powers' entries grow like binomials of it, which float32 bears so far."""

NORM_EPSILON = 1e-6
"""Added to the squared length of queries and keys, as transformers and flash-linear-attention do."""


def unit_length(vectors: Tensor) -> Tensor:
    """Scale vectors along the last dimension to length one."""
    return vectors * torch.rsqrt(vectors.square().sum(-1, keepdim=True) + NORM_EPSILON)


def unit_lower_inverse(strictly_lower: Tensor) -> Tensor:
    """Invert I + L for a strictly lower triangular L of shape (…, n, n), n a power of two times 16."""
    size = strictly_lower.shape[-1]
    if size > INVERSE_BLOCK:
        half = size // 2
        top = unit_lower_inverse(strictly_lower[..., :half, :half])
        bottom = unit_lower_inverse(strictly_lower[..., half:, half:])
        corner = -(bottom @ strictly_lower[..., half:, :half] @ top)
        upper = torch.cat([top, torch.zeros_like(corner)], dim=-1)
        return torch.cat([upper, torch.cat([corner, bottom], dim=-1)], dim=-2)
    identity = torch.eye(size, dtype=strictly_lower.dtype, device=strictly_lower.device)
    power = -strictly_lower
    inverse = identity + power
    exponent = 2
    while exponent < size:
        power = power @ power
        inverse = inverse + inverse @ power
        exponent *= 2
    return inverse


def gated_delta_rule(
    query: Tensor, key: Tensor, value: Tensor, log_decay: Tensor, beta: Tensor, *, products: torch.dtype
) -> Tensor:
    """Apply the rule to whole sequences from a zero state.

    Args:
        query: (batch, tokens, heads, key size), not yet normalised; the number of tokens is a multiple of 64.
        key: likewise.
        value: (batch, tokens, heads, value size).
        log_decay: g, (batch, tokens, heads), at most zero.
        beta: (batch, tokens, heads), between zero and one.
        products: dtype of the large matrix products (bfloat16 on a GPU); sums and the inverse are float32.

    Returns:
        The outputs, (batch, tokens, heads, value size), in float32.
    """
    with torch.autocast(query.device.type, enabled=False):  # the inverse needs float32 products
        return _chunked(query, key, value, log_decay, beta, products)


def _chunked(
    query: Tensor, key: Tensor, value: Tensor, log_decay: Tensor, beta: Tensor, products: torch.dtype
) -> Tensor:
    """Compute `gated_delta_rule` with autocast off."""
    batch, tokens, heads, key_size = query.shape
    chunks = tokens // CHUNK_TOKENS

    def in_chunks(tensor: Tensor) -> Tensor:
        return tensor.float().reshape(batch, chunks, CHUNK_TOKENS, heads, -1).transpose(2, 3)

    query = in_chunks(unit_length(query.float()) * key_size**-0.5)
    key = in_chunks(unit_length(key.float()))
    value = in_chunks(value)
    beta_column = in_chunks(beta.unsqueeze(-1))
    decay = in_chunks(log_decay.unsqueeze(-1)).squeeze(-1).cumsum(-1)

    lower = torch.ones(CHUNK_TOKENS, CHUNK_TOKENS, dtype=torch.bool, device=query.device).tril()
    ratio = (decay.unsqueeze(-1) - decay.unsqueeze(-2)).masked_fill(~lower, float("-inf")).exp()
    key_products = (key * beta_column).to(products) @ key.to(products).transpose(-1, -2)
    inverse = unit_lower_inverse((key_products.float() * ratio).tril(-1))
    grown = decay.exp().unsqueeze(-1)
    inverse = inverse.to(products)
    own_values = (inverse @ (value * beta_column).to(products)).float()
    state_keys = inverse @ (key * beta_column * grown).to(products)
    attention = ((query.to(products) @ key.to(products).transpose(-1, -2)).float() * ratio).to(products)
    state_queries = (query * grown).to(products)
    leaving_keys = (key * (decay[..., -1:] - decay).exp().unsqueeze(-1)).to(products).transpose(-1, -2)
    chunk_decay = decay[..., -1].exp()[..., None, None]

    state = torch.zeros(batch, heads, key_size, value.shape[-1], dtype=torch.float32, device=query.device)
    corrections, reads = [], []
    for index in range(chunks):
        narrow = state.to(products)
        correction = own_values[:, index] - (state_keys[:, index] @ narrow).float()
        reads.append(state_queries[:, index] @ narrow)
        state = state * chunk_decay[:, index] + (leaving_keys[:, index] @ correction.to(products)).float()
        corrections.append(correction.to(products))
    output = torch.stack(reads, 1).float() + (attention @ torch.stack(corrections, 1)).float()
    return output.transpose(2, 3).reshape(batch, tokens, heads, -1)


def causal_short_convolution(channels: Tensor, weight: Tensor) -> Tensor:
    """Convolve each channel with its own short kernel over the tokens up to now, then apply SiLU.

    Args:
        channels: (batch, tokens, channels).
        weight: (channels, 1, kernel), the last entry for the present token.
    """
    kernel = weight.shape[-1]
    tokens = channels.shape[1]
    padded = functional.pad(channels, (0, 0, kernel - 1, 0))
    taps = weight[:, 0].to(channels.dtype)
    total = padded[:, :tokens] * taps[:, 0]
    for offset in range(1, kernel):
        total = total + padded[:, offset : offset + tokens] * taps[:, offset]
    return functional.silu(total)
