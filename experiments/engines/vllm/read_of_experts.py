"""What a step reads of a model's weights where it has experts, from what a worker told of all. Pure.

A step computes with those experts alone to which its tokens are sent; how many different ones these are
follows from even routing (`configs.models.Experts.read`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from configs.models import Experts
from experiments.engines.vllm.served_experts import EXPERTS

DRAFT = "draft"
"""The part of a model that drafts."""


def step_weights(read: Mapping[str, Any], rows: float, requests: float = 1) -> dict[str, int]:
    """Bytes of weights that a step of so many tokens reads, by part, from what a worker told
    (`served_weights.read_by_step`), with even routing to experts; what drafts is given one token of each
    request in a pass. Pure."""
    weights: dict[str, int] = dict(read["weight_bytes"])
    if (told := read.get("experts")) is not None:
        weights[EXPERTS] = _read(told, rows)
    if (told := read.get("draft_experts")) is not None:
        weights[DRAFT] = weights.get(DRAFT, 0) + told["passes"] * _read(told, requests)
    return weights


def _read(told: Mapping[str, int], rows: float) -> int:
    experts = Experts(count=told["count"], per_token=told["per_token"], intermediate=1)
    return round(told["bytes"] * experts.read(rows) / experts.count)


def token_operations(read: Mapping[str, Any]) -> dict[str, int]:
    """Multiplications and additions of one token in products with weights, by part, from the same; pure."""
    experts = read.get("experts")
    return {**read.get("operations", {}), **({} if experts is None else {EXPERTS: experts["operations"]})}
