"""The reference model as it is trained: the trunk and its MTP head, with Qwen3.5's parameter names.

transformers runs the finished checkpoint; this twin exists because transformers' class can't be trained fast
(its chunk solve is slow and can't be compiled whole) and knows no MTP head. A test holds the two to the same
logits.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from experiments.reference_model.architecture import (
    FULL_ATTENTION_INTERVAL,
    PARTIAL_ROTARY_FACTOR,
    ROPE_THETA,
    VOCABULARY,
    Shape,
)
from experiments.reference_model.delta_rule import causal_short_convolution, gated_delta_rule

CONVOLUTION_KERNEL = 4
"""Tokens that a GatedDeltaNet layer's short convolution sees, as in Qwen3.5."""

RMS_EPSILON = 1e-6
"""Added to the mean square in every norm, as in Qwen3.5."""

INITIAL_STD = 0.02
"""Standard deviation of fresh weights, as in Qwen3.5."""

INITIAL_DECAY_RATE = (1.0, 16.0)
"""Range of exp(A_log) at the start, as in Mamba-2 (arXiv 2405.21060)."""

INITIAL_TIME_STEP = (0.001, 0.1)
"""Range of softplus(dt_bias) at the start, as in Mamba-2: memories of ten to a thousand tokens."""


class ZeroCentredNorm(nn.Module):
    """RMSNorm whose weight is an offset from one."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size))

    def forward(self, hidden: Tensor) -> Tensor:
        """Normalise the last dimension in float32; the dtype stays."""
        wide = hidden.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + RMS_EPSILON)
        return (wide * (1.0 + self.weight.float())).type_as(hidden)


class GatedNorm(nn.Module):
    """RMSNorm followed by a SiLU gate, as on the output of a GatedDeltaNet layer."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, hidden: Tensor, gate: Tensor) -> Tensor:
        """Normalise `hidden` and multiply by `silu(gate)`; the result has the gate's dtype."""
        wide = hidden.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + RMS_EPSILON)
        return (self.weight * wide * functional.silu(gate.float())).to(gate.dtype)


class ConvolutionWeight(nn.Module):
    """Holds the weight that Qwen3.5 calls `conv1d.weight`."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(channels, 1, CONVOLUTION_KERNEL))


class GatedDeltaNet(nn.Module):
    """Linear attention by the gated delta rule; a short convolution before it, a gated norm after it."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.key_heads, self.value_heads = shape.gdn_key_heads, shape.gdn_value_heads
        self.head_size = shape.gdn_head_size
        key_width, value_width = self.key_heads * self.head_size, self.value_heads * self.head_size
        self.widths = [key_width, key_width, value_width]
        self.in_proj_qkv = nn.Linear(shape.hidden, sum(self.widths), bias=False)
        self.in_proj_z = nn.Linear(shape.hidden, value_width, bias=False)
        self.in_proj_b = nn.Linear(shape.hidden, self.value_heads, bias=False)
        self.in_proj_a = nn.Linear(shape.hidden, self.value_heads, bias=False)
        self.conv1d = ConvolutionWeight(sum(self.widths))
        self.dt_bias = nn.Parameter(torch.empty(self.value_heads))
        self.A_log = nn.Parameter(torch.empty(self.value_heads))
        self.norm = GatedNorm(self.head_size)
        self.out_proj = nn.Linear(value_width, shape.hidden, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """Map (batch, tokens, hidden) to the same shape; tokens must be a multiple of the chunk."""
        batch, tokens, _ = hidden.shape
        mixed = causal_short_convolution(self.in_proj_qkv(hidden), self.conv1d.weight)
        query, key, value = (
            part.reshape(batch, tokens, -1, self.head_size)
            for part in torch.split(mixed, self.widths, dim=-1)
        )
        copies = self.value_heads // self.key_heads
        log_decay = -self.A_log.float().exp() * functional.softplus(
            self.in_proj_a(hidden).float() + self.dt_bias.float()
        )
        output = gated_delta_rule(
            query.repeat_interleave(copies, dim=2),
            key.repeat_interleave(copies, dim=2),
            value,
            log_decay,
            self.in_proj_b(hidden).float().sigmoid(),
            products=mixed.dtype,
        )
        gate = self.in_proj_z(hidden).reshape(batch, tokens, -1, self.head_size)
        return self.out_proj(self.norm(output, gate).reshape(batch, tokens, -1))  # type: ignore[no-any-return]


class GatedAttention(nn.Module):
    """Causal attention: grouped heads, normalised queries and keys, partial rotation, an output gate."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.head_size = shape.head_size
        width = shape.query_heads * shape.head_size
        self.q_proj = nn.Linear(shape.hidden, 2 * width, bias=False)
        self.k_proj = nn.Linear(shape.hidden, shape.kv_heads * shape.head_size, bias=False)
        self.v_proj = nn.Linear(shape.hidden, shape.kv_heads * shape.head_size, bias=False)
        self.o_proj = nn.Linear(width, shape.hidden, bias=False)
        self.q_norm = ZeroCentredNorm(shape.head_size)
        self.k_norm = ZeroCentredNorm(shape.head_size)

    def forward(self, hidden: Tensor) -> Tensor:
        """Map (batch, tokens, hidden) to the same shape."""
        batch, tokens, _ = hidden.shape
        query, gate = self.q_proj(hidden).view(batch, tokens, -1, 2 * self.head_size).chunk(2, dim=-1)
        key = self.k_proj(hidden).view(batch, tokens, -1, self.head_size)
        value = self.v_proj(hidden).view(batch, tokens, -1, self.head_size)
        query, key = rotate(self.q_norm(query)), rotate(self.k_norm(key))
        mixed = functional.scaled_dot_product_attention(
            query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), is_causal=True, enable_gqa=True
        )
        mixed = mixed.transpose(1, 2) * gate.sigmoid()
        return self.o_proj(mixed.reshape(batch, tokens, -1))  # type: ignore[no-any-return]


def rotate(heads: Tensor) -> Tensor:
    """Turn the first quarter of each head by the token's position: (batch, tokens, heads, size)."""
    rotary = int(heads.shape[-1] * PARTIAL_ROTARY_FACTOR)
    exponents = torch.arange(0, rotary, 2, dtype=torch.float32, device=heads.device) / rotary
    positions = torch.arange(heads.shape[1], dtype=torch.float32, device=heads.device)
    angles = positions[:, None] * ROPE_THETA**-exponents
    cosine, sine = angles.cos()[:, None], angles.sin()[:, None]
    first, second = heads[..., : rotary // 2].float(), heads[..., rotary // 2 : rotary].float()
    turned = torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)
    return torch.cat([turned.type_as(heads), heads[..., rotary:]], dim=-1)


class GatedMlp(nn.Module):
    """SwiGLU."""

    def __init__(self, hidden: int, intermediate: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden, intermediate, bias=False)
        self.up_proj = nn.Linear(hidden, intermediate, bias=False)
        self.down_proj = nn.Linear(intermediate, hidden, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """Map (…, hidden) to the same shape."""
        gated = functional.silu(self.gate_proj(hidden)) * self.up_proj(hidden)
        return self.down_proj(gated)  # type: ignore[no-any-return]


class Layer(nn.Module):
    """A decoder layer: token mixing and MLP, each after a norm and beside a residual."""

    def __init__(self, shape: Shape, *, attention: bool) -> None:
        super().__init__()
        self.input_layernorm = ZeroCentredNorm(shape.hidden)
        self.post_attention_layernorm = ZeroCentredNorm(shape.hidden)
        self.attention = attention
        if attention:
            self.self_attn = GatedAttention(shape)
        else:
            self.linear_attn = GatedDeltaNet(shape)
        self.mlp = GatedMlp(shape.hidden, shape.intermediate)

    def forward(self, hidden: Tensor) -> Tensor:
        """Map (batch, tokens, hidden) to the same shape."""
        mixer = self.self_attn if self.attention else self.linear_attn
        hidden = hidden + mixer(self.input_layernorm(hidden))
        return hidden + self.mlp(self.post_attention_layernorm(hidden))  # type: ignore[no-any-return]


class Trunk(nn.Module):
    """Embedding, layers and final norm; the embedding is the output head as well."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCABULARY, shape.hidden)
        self.layers = nn.ModuleList(
            Layer(shape, attention=(index + 1) % FULL_ATTENTION_INTERVAL == 0)
            for index in range(shape.layers)
        )
        self.norm = ZeroCentredNorm(shape.hidden)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map token ids (batch, tokens) to final hidden states, after the norm."""
        hidden = self.embed_tokens(tokens)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.norm(hidden)  # type: ignore[no-any-return]


def initialise(module: nn.Module, seed: int) -> None:
    """Fill every weight of a trunk or head from a seed, the same on every device."""
    generator = torch.Generator().manual_seed(seed)
    layers = sum(isinstance(part, Layer) for part in module.modules())
    with torch.no_grad():
        for name, parameter in sorted(module.named_parameters()):
            leaf = name.rsplit(".", 2)[-2:]
            if leaf[-1] == "A_log":
                low, high = INITIAL_DECAY_RATE
                parameter.copy_(torch.empty(parameter.shape).uniform_(low, high, generator=generator).log())
            elif leaf[-1] == "dt_bias":
                low, high = (math.log(bound) for bound in INITIAL_TIME_STEP)
                step = torch.empty(parameter.shape).uniform_(low, high, generator=generator).exp()
                parameter.copy_(step + (-(-step).expm1()).log())
            elif leaf[0] == "conv1d":
                bound = CONVOLUTION_KERNEL**-0.5
                parameter.copy_(torch.empty(parameter.shape).uniform_(-bound, bound, generator=generator))
            elif parameter.ndim == 2:
                std = INITIAL_STD
                if leaf[0] in ("out_proj", "o_proj", "down_proj"):
                    std /= math.sqrt(2 * max(layers, 1))
                parameter.copy_(torch.empty(parameter.shape).normal_(0.0, std, generator=generator))
