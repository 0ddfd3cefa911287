"""Weight formats: how many bits a weight takes, scales and zero points included."""

from __future__ import annotations

from dataclasses import dataclass

BITS_PER_BYTE = 8
"""Bits in a byte."""

SIXTEEN_BIT = 16.0
"""Bits of a bfloat16 weight."""

SCALE_BITS = 16
"""Bits of one group's scale (float16 or bfloat16) in compressed-tensors `pack-quantized`."""

ZERO_POINT_BITS = 4
"""Bits of one group's zero point in 4-bit asymmetric quantization."""


@dataclass(frozen=True)
class WeightFormat:
    """Bits a weight takes: in projections, in the head, and everywhere else."""

    name: str
    matmul_bits: float
    head_bits: float
    other_bits: float


def grouped_4_bit(group_size: int, *, head: bool = False) -> WeightFormat:
    """Asymmetric 4-bit weights with a scale and a zero point a group; `head` quantizes the head as well.

    4.156 bits a weight for groups of 128, 4.625 for groups of 32.
    """
    bits = 4 + (SCALE_BITS + ZERO_POINT_BITS) / group_size
    return WeightFormat(
        f"w4_g{group_size}{'_head' if head else ''}", bits, bits if head else SIXTEEN_BIT, SIXTEEN_BIT
    )


FLOAT32 = WeightFormat("float32", 32.0, 32.0, 32.0)
"""Every weight in 32-bit floating point: the usual type on a CPU."""

BFLOAT16 = WeightFormat("bfloat16", SIXTEEN_BIT, SIXTEEN_BIT, SIXTEEN_BIT)
"""Every weight in bfloat16, as Qwen3.5 is published."""

FP8 = WeightFormat("fp8", 8.0, SIXTEEN_BIT, SIXTEEN_BIT)
"""Projections in 8-bit floating point, a scale a tensor; the head stays in bfloat16."""

WEIGHT_FORMATS = {
    weights.name: weights
    for weights in (
        *(FLOAT32, BFLOAT16, FP8),
        *(grouped_4_bit(128), grouped_4_bit(32), grouped_4_bit(128, head=True)),
    )
}
"""The formats of the floor's table, by name."""
