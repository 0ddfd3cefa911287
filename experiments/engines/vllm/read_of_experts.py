"""What a step reads of a model's weights where it has experts, from what a worker told of all. Pure.

A step computes with those experts alone to which its tokens are sent; how many different ones these are
follows from even routing (`configs.models.Experts.read`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from configs.models import Experts
from experiments.engines.vllm.served_experts import EXPERTS


def step_weights(read: Mapping[str, Any], rows: float) -> dict[str, int]:
    """Bytes of weights that a step of so many tokens reads, by part, from what a worker told
    (`served_weights.read_by_step`), with even routing to experts; pure."""
    told = read.get("experts")
    if told is None:
        return dict(read["weight_bytes"])
    experts = Experts(count=told["count"], per_token=told["per_token"], intermediate=1)
    return {**read["weight_bytes"], EXPERTS: round(told["bytes"] * experts.read(rows) / experts.count)}


def token_operations(read: Mapping[str, Any]) -> dict[str, int]:
    """Multiplications and additions of one token in products with weights, by part, from the same; pure."""
    experts = read.get("experts")
    return {**read.get("operations", {}), **({} if experts is None else {EXPERTS: experts["operations"]})}
