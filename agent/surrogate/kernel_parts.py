"""A step's kernels summed up by what could be won from each kind, and what serving levers may do to it. Pure.

From the profile by kernels of the configuration that is being improved (docs/profile.md). Matrix products
are above the floor of their bytes by what the kernel loses: that much another kernel may win, or lose again;
which one does is not known before it is measured, so every other kernel is expected to change nothing, with
a spread of that size. What lies outside kernels is what graphs and scheduling act on. Narrower caches and
states save their bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from experiments.engines.port import PartTime
from experiments.space.configuration import KnobValue

MS_PER_S = 1e3

PRODUCTS, HEAD, OUTSIDE = "gemm", "lm_head", "outside"

NO_GRAPHS = ("eager", "none")
"""Values of `serving.graph_mode` under which every kernel is launched by the processor."""

LAUNCH_US = 25.0
"""Microseconds that a launch takes the processor where no graph replays it, about: with some 215 launches a
step of the packaged model took 8.4 ms on the host of an H200, beside other work (the case `none` in
docs/results/tables/h200-levers-once.jsonl)."""

GRAPHS_SHARE_REMOVED = 0.7
"""Share of the time outside kernels that graphs are expected to remove; judgement."""

EAGER_SD_LOG = 0.3
"""How far that may be off, in either direction."""

SHARE_SD = 0.5
"""Standard deviation of what a lever does to the part that it acts on, as a share of that part; for products
of what they take above their floor: kernels of 4-bit weights reached 32 to 49 % of the bandwidth of an H200
on the same shape."""

LEAST_SD_LOG = 0.01
"""No lever is expected more closely than this."""

SAME_STEP = ("context", "batching", "chunking", "caching", "gdn_prefill")
"""Levers that decide what is reserved and kept, how many requests there may be, and how prompts are read: a
decode step does the same with them, for all that is known."""

SAME_STEP_SD_LOG = 0.02
"""How far that may be off: other sizes of caches and graphs."""

SIXTEEN_BITS = ("bfloat16", "float16")
"""Types of activations of the same width, for which a GPU has the same units."""

NARROWER = {"bfloat16": 0.5, "fp8_e4m3": 0.5, "fp8_e5m2": 0.5, "fp8": 0.5}
"""Bytes of a narrower type over those of the default that it replaces."""


@dataclass(frozen=True)
class KernelParts:
    """A profiled step: milliseconds and floor by kind of part, and how many kernels it launches."""

    step_ms: float
    time_ms: Mapping[str, float]
    floor_ms: Mapping[str, float]
    launches: float

    @classmethod
    def of(cls, profile: Sequence[PartTime], bandwidth_bytes_per_s: float | None) -> KernelParts | None:
        """Sum up a profile; None of one that was not made of kernels, or where no bandwidth is known."""
        step_ms = math.fsum(part.time_ms for part in profile)
        kinds = {part.kind for part in profile}
        if OUTSIDE not in kinds or step_ms <= 0 or not bandwidth_bytes_per_s:
            return None
        times = {kind: math.fsum(p.time_ms for p in profile if p.kind == kind) for kind in kinds}
        moved = {kind: sum(p.moved_bytes for p in profile if p.kind == kind) for kind in kinds}
        floors = {
            kind: min(times[kind], MS_PER_S * count / bandwidth_bytes_per_s) for kind, count in moved.items()
        }
        return cls(step_ms, times, floors, math.fsum(part.launches for part in profile))

    def share(self, kind: str) -> float:
        """Share of the step that a kind of part takes, 0 to 1."""
        return self.time_ms.get(kind, 0.0) / self.step_ms

    def floor_share(self, kind: str) -> float:
        """Share of the step that the bytes of a kind of part take at full bandwidth."""
        return self.floor_ms.get(kind, 0.0) / self.step_ms

    def above_share(self, kind: str) -> float:
        """Share of the step that a kind of part takes above its floor."""
        return self.share(kind) - self.floor_share(kind)

    def bandwidth_share(self, kind: str) -> float | None:
        """The share of the bandwidth that a kind of part reaches; None where it takes no time."""
        time_ms = self.time_ms.get(kind, 0.0)
        return self.floor_ms.get(kind, 0.0) / time_ms if time_ms > 0 else None


def expected(
    parts: KernelParts, lever: str, knobs: Mapping[str, KnobValue | None], baseline: Mapping[str, KnobValue]
) -> tuple[float, float] | None:
    """Mean and standard deviation of the log of TPOT that a lever's setting brings; None for a lever that
    this page does not know."""
    if lever in SAME_STEP:
        return 0.0, SAME_STEP_SD_LOG
    if lever == "dtype":
        kinds = (knobs.get("serving.dtype"), baseline.get("serving.dtype"))
        return (0.0, SAME_STEP_SD_LOG) if all(kind in SIXTEEN_BITS for kind in kinds) else None
    if lever == "kernel":
        return 0.0, _spread(parts.above_share(PRODUCTS))
    if lever == "graphs":
        return _graphs(parts, str(knobs.get("serving.graph_mode")), str(baseline.get("serving.graph_mode")))
    if lever == "scheduling":
        return 0.0, _spread(parts.share(OUTSIDE))
    if lever == "gdn_state":
        return _narrower(parts, "gdn_state", knobs.get("serving.gdn_state_dtype"))
    if lever == "kv_cache":
        return _narrower(parts, "attention", knobs.get("serving.kv_cache_dtype"))
    if lever == "weight_dtype":
        mean, _ = _narrower(parts, PRODUCTS, knobs.get("serving.weight_dtype"))
        return mean, max(_spread(parts.share(PRODUCTS)), abs(mean))
    return None


def _graphs(parts: KernelParts, mode: str, before: str) -> tuple[float, float]:
    outside = parts.share(OUTSIDE)
    if before in NO_GRAPHS and mode not in NO_GRAPHS:
        return math.log1p(-GRAPHS_SHARE_REMOVED * outside), _spread(outside)
    if mode in NO_GRAPHS and before not in NO_GRAPHS:
        launched_ms = LAUNCH_US * parts.launches / MS_PER_S
        return max(0.0, math.log(launched_ms / parts.step_ms)), EAGER_SD_LOG
    return 0.0, _spread(outside)


def _narrower(parts: KernelParts, kind: str, value: KnobValue | None) -> tuple[float, float]:
    saved = parts.floor_share(kind) * (1 - NARROWER.get(str(value), 1.0))
    return math.log1p(-saved), _spread(saved)


def _spread(share: float) -> float:
    return max(LEAST_SD_LOG, SHARE_SD * share)
