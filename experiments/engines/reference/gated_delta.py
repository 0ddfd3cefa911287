"""A GatedDeltaNet layer over a few tokens from a known state, with the state after each of them.

transformers' own layer takes one token from a state by the recurrent rule and several by the chunked rule,
which keeps only the state after the last. Drafting needs the state after every token, because it is not known
before the end of the step how many of them stay. So this runs the recurrent rule of transformers' one-token
path, with the layer's own weights and norms, over the tokens in turn, and gives all states: going back to one
of them is a matter of choosing it.

For one token it computes what the layer's own forward computes, up to the order in which the four products
of the short convolution are added (tests hold this).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional
from transformers.activations import ACT2FN
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5GatedDeltaNet, l2norm


def gated_delta_tokens(
    layer: Qwen3_5GatedDeltaNet, hidden: Tensor, window: Tensor, recurrent: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Run the layer over tokens that follow a state.

    Args:
        layer: transformers' layer.
        hidden: its input, `[1, tokens, hidden]`.
        window: what the convolution still sees of the tokens before, oldest first, `[kernel − 1, channels]`.
        recurrent: the recurrent state, `[value heads, key dimensions, value dimensions]`, float32.

    Returns:
        The output `[1, tokens, hidden]`; the convolution's rows `[kernel − 1 + tokens, channels]`, of which
        `window_after` cuts the window after any token; and the recurrent states after each token,
        `[tokens, value heads, key dimensions, value dimensions]`.
    """
    tokens = hidden.shape[1]
    rows = torch.cat([window, layer.in_proj_qkv(hidden)[0]], dim=0)
    mixed = _short_convolution(layer, rows, tokens)
    query, key, value = (
        part.reshape(tokens, -1, size)
        for part, size in zip(
            torch.split(mixed, [layer.key_dim, layer.key_dim, layer.value_dim], dim=-1),
            (layer.head_k_dim, layer.head_k_dim, layer.head_v_dim),
            strict=True,
        )
    )
    copies = layer.num_v_heads // layer.num_k_heads
    if copies > 1:
        query, key = (part.repeat_interleave(copies, dim=1) for part in (query, key))
    query = l2norm(query.float()) / layer.head_k_dim**0.5
    key, value = l2norm(key.float()), value.float()
    beta = layer.in_proj_b(hidden)[0].sigmoid().float()
    log_decay = -layer.A_log.float().exp() * functional.softplus(
        layer.in_proj_a(hidden)[0].float() + layer.dt_bias
    )
    decay = log_decay.exp()
    outputs, states = [], []
    for token in range(tokens):
        recurrent = recurrent * decay[token, :, None, None]
        remembered = (recurrent * key[token, :, :, None]).sum(dim=-2)
        delta = (value[token] - remembered) * beta[token, :, None]
        recurrent = recurrent + key[token, :, :, None] * delta[:, None, :]
        outputs.append((recurrent * query[token, :, :, None]).sum(dim=-2))
        states.append(recurrent)
    mixed_out = torch.stack(outputs).to(hidden.dtype).reshape(-1, layer.head_v_dim)
    gate = layer.in_proj_z(hidden).reshape(-1, layer.head_v_dim)
    output = layer.out_proj(layer.norm(mixed_out, gate).reshape(1, tokens, -1))
    return output, rows, torch.stack(states)


def _short_convolution(layer: Qwen3_5GatedDeltaNet, rows: Tensor, tokens: int) -> Tensor:
    """The depthwise convolution over rows and its activation, `[tokens, channels]`; sums are float32."""
    taps = layer.conv1d.weight[:, 0].float()
    wide = rows.float()
    total = wide[:tokens] * taps[:, 0]
    for offset in range(1, taps.shape[1]):
        total = total + wide[offset : offset + tokens] * taps[:, offset]
    activated: Tensor = ACT2FN[layer.activation](total.to(rows.dtype))
    return activated


def window_after(rows: Tensor, tokens: int, kept: int) -> Tensor:
    """The convolution's window once `kept` of a step's `tokens` tokens stand: a view of its rows."""
    return rows[kept : kept + len(rows) - tokens]
