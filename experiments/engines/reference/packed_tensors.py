"""Unpacks quantized weights: integers out of words, then w = (q − zero point) · scale, in float32.

The layouts are described in `packed_layout.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from experiments.engines.reference.packed_layout import (
    AWQ_BITS,
    AWQ_COLUMN_ORDER,
    AWQ_GEMM,
    WORD_BITS,
    PackedModule,
)


def dequantized(module: PackedModule, parts: Mapping[str, Tensor]) -> Tensor:
    """The weight of a module, (outputs, inputs), float32; `parts` by the ends of their names."""
    if module.layout == AWQ_GEMM:
        return _from_awq(parts)
    offset = 1 << (module.bits - 1)
    integers = unpacked(parts["weight_packed"], module.bits)[:, : module.inputs] - offset
    scale = parts["weight_scale"].float()
    if "weight_zero_point" in parts:
        zero_point = _zero_points(parts["weight_zero_point"], module, offset)
    else:
        zero_point = torch.zeros_like(scale)
    order = parts.get("weight_g_idx")
    if order is not None and bool((order >= 0).all()):  # −1 stands for no reordering
        places = order.long()
    else:
        places = torch.arange(module.inputs, device=scale.device) // module.group_size
    return (integers.float() - zero_point[:, places]) * scale[:, places]


def unpacked(words: Tensor, bits: int) -> Tensor:
    """Unsigned integers, lowest bits of each word first: int32 (rows, words) to (rows, words · 32 / bits)."""
    shifts = torch.arange(0, WORD_BITS, bits, dtype=torch.int32, device=words.device)
    return ((words.unsqueeze(-1) >> shifts) & ((1 << bits) - 1)).flatten(-2)


def _zero_points(stored: Tensor, module: PackedModule, offset: int) -> Tensor:
    """Zero points, (outputs, groups), float32; stored packed along the outputs, or one a byte."""
    if stored.shape[0] == module.outputs and stored.dtype != torch.int32:
        return stored.float()
    rows = unpacked(stored.T.contiguous(), module.bits)[:, : module.outputs]
    return (rows.T - offset).float()


def _from_awq(parts: Mapping[str, Tensor]) -> Tensor:
    scales = parts["scales"].float()  # (groups, outputs)
    integers, zeros = _awq_columns(parts["qweight"]), _awq_columns(parts["qzeros"])
    group_size = integers.shape[0] // scales.shape[0]
    grouped = integers.reshape(scales.shape[0], group_size, -1)
    weight = (grouped - zeros.unsqueeze(1)).float() * scales.unsqueeze(1)
    return weight.flatten(0, 1).T.contiguous()


def _awq_columns(words: Tensor) -> Tensor:
    """The integers of a matrix whose columns lie in AutoAWQ's order: (rows, words) to (rows, 8 · words)."""
    at_places = unpacked(words, AWQ_BITS).reshape(*words.shape, WORD_BITS // AWQ_BITS)
    columns = torch.empty_like(at_places)
    columns[..., list(AWQ_COLUMN_ORDER)] = at_places
    return columns.flatten(-2)
