"""Bytes of weights that a loaded module holds, and that a step reads of it. Imports torch.

A step reads the experts that its rows are sent to; how many these are follows from even routing, as in a plan
(`configs.models.Experts.read`).
"""

from __future__ import annotations

from typing import Any

from torch import nn

from configs.models import Experts


def bytes_of(module: nn.Module) -> int:
    """Bytes of a module's weights, each counted once."""
    return sum(weight.numel() * weight.element_size() for weight in module.parameters())


def bytes_read(module: nn.Module, rows: int = 1) -> int:
    """Bytes of a module's weights that a step of so many rows reads: exact for one row, and beyond that an
    expectation where there are experts."""
    return round(bytes_of(module) - sum(_unread(block, rows) for block in module.modules()))


def _unread(block: Any, rows: int) -> float:
    """Bytes of the block's own experts that no row is sent to; a router tells how many there are."""
    if not hasattr(block, "experts"):
        return 0
    experts = Experts(count=block.gate.num_experts, per_token=block.gate.top_k, intermediate=1)
    return bytes_of(block.experts) * (1 - experts.read(rows) / experts.count)
