"""The least time of a decode step by physics, for each format of weights, before anything is measured. Pure.

Of a checkpoint whose weights are quantized as they are stored that is one format: what its files hold.

A step reads its weights once, and for each sequence its keys and values and, read and written, its
GatedDeltaNet states; it can't be faster than these bytes over the memory's bandwidth (docs/profile.md). Of a
Mixture of Experts it reads the experts that its rows are sent to, a token of each sequence and the drafts
that it verifies, which is an expectation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from agent.surrogate.weight_bytes import step_weight_bytes
from configs.models import ModelProfile
from configs.weight_formats import BFLOAT16, FLOAT32, WEIGHT_FORMATS, WeightFormat

MS_PER_S = 1e3

READ_AND_WRITTEN = 2
"""How often a step without drafting moves a state."""

AS_STORED = "as_stored"
"""In place of a format's name: the bytes that a checkpoint's files hold."""

WORDS = {
    "float32": "32 bits",
    "bfloat16": "16 bits",
    "fp8": "8 bits, fp8",
    "w4_g128": "4 bits, groups of 128",
    "w4_g32": "4 bits, groups of 32",
    "w4_g128_head": "4 bits, groups of 128, head too",
    AS_STORED: "as its files store them",
}
"""What a format of weights is called."""

ON_CPU = (FLOAT32.name, BFLOAT16.name)
"""Formats that a processor serves; the others are a GPU's, and bfloat16."""


@dataclass(frozen=True)
class FloorRow:
    """The floor of one format: bytes of weights and of caches and states that a step moves, and milliseconds
    at the bandwidth; None where no bandwidth is listed."""

    weights: str
    words: str
    weight_bytes: float
    cache_bytes: int
    floor_ms: float | None


def floors(
    profile: ModelProfile,
    bandwidth_bytes_per_s: float | None,
    *,
    on_gpu: bool,
    context_tokens: int,
    sequences: int = 1,
    rows: int | None = None,
    as_stored: bool = False,
) -> tuple[FloorRow, ...]:
    """The floor of a model's shape in each format that the device may serve, at a context; `rows` are
    those of a step (None: one of each sequence); `as_stored`: in the one that its checkpoint stores, which
    the engine computes with."""
    rows = sequences if rows is None else rows
    cached = sequences * cache_bytes(profile, context_tokens)
    if as_stored:
        read = {AS_STORED: step_weight_bytes(profile, {}, rows).mean}
    else:
        read = {weights.name: profile.weight_bytes_per_step(weights, rows) for weights in _served(on_gpu)}
    return tuple(
        FloorRow(
            name,
            WORDS.get(name, name),
            weight_bytes,
            cached,
            None
            if bandwidth_bytes_per_s is None
            else MS_PER_S * (weight_bytes + cached) / bandwidth_bytes_per_s,
        )
        for name, weight_bytes in read.items()
    )


def cache_bytes(profile: ModelProfile, context_tokens: int) -> int:
    """Bytes of keys, values and states that a step of one sequence moves."""
    states = READ_AND_WRITTEN * profile.gdn_state_bytes
    return context_tokens * profile.kv_bytes_per_token + states


def _served(on_gpu: bool) -> Iterable[WeightFormat]:
    return (
        weights
        for name, weights in WEIGHT_FORMATS.items()
        if (name != FLOAT32.name if on_gpu else name in ON_CPU)
    )
