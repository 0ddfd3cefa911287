"""The drafter's network: context from the target's hidden states, and one pass over a block, not causal.

At every position the target has read, the streams of some of its layers are joined, brought to the drafter's
width by `fc` and normalised (`hidden_norm`); from that, each layer makes keys and values (the *context*).
A block is the last known token and masks after it, embedded by the target's own table. Each of its positions
sees the whole context and the whole block, later positions included; what stands at a mask's place at the end
(`norm`), read by the target's own head, is the token drafted for that place.

Design: "DFlash: Block Diffusion for Flash Speculative Decoding", arXiv 2602.06036. Tensor names and their
meaning are those of vLLM 0.32's `DFlashDraftModel`: a Qwen3 layer, whose norms scale by their weight itself.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from experiments.drafters.dflash.shape import DFlashShape
from experiments.reference_model.network import GatedMlp

INITIAL_STD = 0.02
"""Standard deviation of fresh weights, as in Qwen3."""

ContextKeysValues = list[tuple[Tensor, Tensor]]
"""Per layer keys and values of the context, each (batch, kv heads, positions, head size)."""


class ScaleNorm(nn.Module):
    """RMSNorm over the last dimension, in float32; the weight is the scale itself."""

    def __init__(self, size: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.epsilon = epsilon

    def forward(self, hidden: Tensor) -> Tensor:
        """Normalise; the dtype stays."""
        wide = hidden.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.epsilon)
        return (self.weight.float() * wide).type_as(hidden)


def rotate(heads: Tensor, positions: Tensor, theta: float) -> Tensor:
    """Turn whole heads (batch, heads, tokens, size) by their positions (batch, tokens); halves are pairs."""
    size = heads.shape[-1]
    exponents = torch.arange(0, size, 2, dtype=torch.float32, device=heads.device) / size
    angles = positions[:, None, :, None].float() * theta**-exponents
    cosine, sine = angles.cos(), angles.sin()
    first, second = heads.float().chunk(2, dim=-1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1).type_as(heads)


class BlockAttention(nn.Module):
    """Attention of a block to context and block; queries and keys are normalised by head and rotated."""

    def __init__(self, shape: DFlashShape) -> None:
        super().__init__()
        self.head_size, self.theta = shape.head_size, shape.rope_theta
        self.q_proj = nn.Linear(shape.hidden, shape.query_heads * shape.head_size, bias=False)
        self.k_proj = nn.Linear(shape.hidden, shape.kv_heads * shape.head_size, bias=False)
        self.v_proj = nn.Linear(shape.hidden, shape.kv_heads * shape.head_size, bias=False)
        self.o_proj = nn.Linear(shape.query_heads * shape.head_size, shape.hidden, bias=False)
        self.q_norm = ScaleNorm(shape.head_size, shape.rms_epsilon)
        self.k_norm = ScaleNorm(shape.head_size, shape.rms_epsilon)

    def _heads(self, projected: Tensor) -> Tensor:
        """(batch, tokens, heads × size) to (batch, heads, tokens, size)."""
        return projected.view(*projected.shape[:2], -1, self.head_size).transpose(1, 2)

    def keys_values(self, hidden: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys, rotated, and values of (batch, tokens, hidden) at (batch, tokens)."""
        keys = rotate(self.k_norm(self._heads(self.k_proj(hidden))), positions, self.theta)
        return keys, self._heads(self.v_proj(hidden))

    def forward(
        self, hidden: Tensor, positions: Tensor, context: tuple[Tensor, Tensor], visible: Tensor | None
    ) -> Tensor:
        """Mix a block (batch, tokens, hidden); `visible` as in `DFlashNetwork.forward`."""
        queries = rotate(self.q_norm(self._heads(self.q_proj(hidden))), positions, self.theta)
        own_keys, own_values = self.keys_values(hidden, positions)
        keys = torch.cat([context[0], own_keys], dim=2)
        values = torch.cat([context[1], own_values], dim=2)
        mixed = functional.scaled_dot_product_attention(
            queries, keys, values, attn_mask=visible, enable_gqa=True
        )
        return self.o_proj(mixed.transpose(1, 2).flatten(-2))  # type: ignore[no-any-return]


class BlockLayer(nn.Module):
    """Attention and MLP, each after a norm and beside a residual."""

    def __init__(self, shape: DFlashShape) -> None:
        super().__init__()
        self.self_attn = BlockAttention(shape)
        self.mlp = GatedMlp(shape.hidden, shape.intermediate)
        self.input_layernorm = ScaleNorm(shape.hidden, shape.rms_epsilon)
        self.post_attention_layernorm = ScaleNorm(shape.hidden, shape.rms_epsilon)

    def forward(
        self, hidden: Tensor, positions: Tensor, context: tuple[Tensor, Tensor], visible: Tensor | None
    ) -> Tensor:
        """Map a block (batch, tokens, hidden) to the same shape."""
        hidden = hidden + self.self_attn(self.input_layernorm(hidden), positions, context, visible)
        return hidden + self.mlp(self.post_attention_layernorm(hidden))  # type: ignore[no-any-return]


class DFlashNetwork(nn.Module):
    """All of a drafter's own weights; embedding and head are the target's."""

    def __init__(self, shape: DFlashShape) -> None:
        super().__init__()
        self.shape = shape
        self.fc = nn.Linear(shape.features, shape.hidden, bias=False)
        self.hidden_norm = ScaleNorm(shape.hidden, shape.rms_epsilon)
        self.layers = nn.ModuleList(BlockLayer(shape) for _ in range(shape.layers))
        self.norm = ScaleNorm(shape.hidden, shape.rms_epsilon)

    def context(self, features: Tensor, positions: Tensor) -> ContextKeysValues:
        """Return each layer's keys and values of positions that the target has read.

        They depend on nothing but their own position, so they can be made once and kept.

        Args:
            features: the target's streams, joined, (batch, positions, `shape.features`).
            positions: where they stand, (batch, positions).
        """
        states = self.hidden_norm(self.fc(features))
        return [layer.self_attn.keys_values(states, positions) for layer in self.layers]  # type: ignore[union-attr, operator]

    def forward(
        self,
        block: Tensor,
        positions: Tensor,
        context: ContextKeysValues,
        visible: Tensor | None = None,
    ) -> Tensor:
        """Return final hidden states of a block, after the norm: (batch, tokens, hidden).

        Args:
            block: the target's embeddings of the last known token and of the masks, (batch, tokens, hidden).
            positions: where they stand, (batch, tokens).
            context: of `context`.
            visible: which of context and block, in that order, each block position sees, boolean
                (batch, 1, tokens, context positions + tokens); None lets all see all.
        """
        hidden = block
        for layer, keys_values in zip(self.layers, context, strict=True):
            hidden = layer(hidden, positions, keys_values, visible)
        return self.norm(hidden)  # type: ignore[no-any-return]


def initialise(network: DFlashNetwork, seed: int) -> None:
    """Fill every matrix from a seed, the same on every device; norms begin at one."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(network.named_parameters()):
            if parameter.ndim < 2:
                continue
            std = INITIAL_STD
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                std /= math.sqrt(2 * network.shape.layers)
            parameter.copy_(torch.empty(parameter.shape).normal_(0.0, std, generator=generator))
