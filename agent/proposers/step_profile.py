"""The baseline's decode step, summed up for rules: where the time is and how fast bytes are read. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from experiments.engines.port import PartTime

_LAYER = re.compile(r"layers\.(\d+)(?:\.|$)")

BYTES_PER_GB = 1e9
MS_PER_S = 1e3

DISPATCH_BOUND_GB_PER_S = 10.0
"""A step that reads its weights slower than this waits for dispatch, not for memory: one channel of DDR4-3200
alone gives 25.6 GB/s."""


@dataclass(frozen=True)
class StepProfile:
    """Shares of the step (0 to 1) and speed of reading weights.

    `layer_share` maps each layer's number to its share, `other` each kind of part outside the layers,
    `bytes_by_kind` each kind of part to the weight bytes that it reads.
    """

    tpot_ms: float
    layer_share: dict[int, float]
    other: dict[str, float]
    weight_bytes: int
    bytes_by_kind: dict[str, int] = field(default_factory=dict)

    @property
    def gb_per_s(self) -> float:
        """Weight bytes of a step over its time, GB/s."""
        return self.weight_bytes / BYTES_PER_GB / (self.tpot_ms / MS_PER_S)

    @property
    def dispatch_bound(self) -> bool:
        """Whether the step reads its weights slower than any memory would."""
        return self.gb_per_s < DISPATCH_BOUND_GB_PER_S

    @property
    def layers(self) -> float:
        """Share of all layers together."""
        return math.fsum(self.layer_share.values())

    def share_of(self, layers: Sequence[int]) -> float:
        """Mean share of one of these layers; 0 for none."""
        found = [self.layer_share.get(layer, 0.0) for layer in layers]
        return math.fsum(found) / len(found) if found else 0.0


def step_profile(profile: Sequence[PartTime], tpot_ms: float) -> StepProfile | None:
    """Sum up a profile; None when there is none. Times are taken as shares, since profiling slows a step."""
    total = math.fsum(part.time_ms for part in profile)
    if total <= 0:
        return None
    layers: dict[int, float] = {}
    other: dict[str, float] = {}
    read: dict[str, int] = {}
    for part in profile:
        found = _LAYER.match(part.part)
        share = part.time_ms / total
        read[part.kind] = read.get(part.kind, 0) + part.weight_bytes
        if found:
            layers[int(found[1])] = layers.get(int(found[1]), 0.0) + share
        else:
            other[part.kind] = other.get(part.kind, 0.0) + share
    return StepProfile(tpot_ms, layers, other, sum(read.values()), read)
