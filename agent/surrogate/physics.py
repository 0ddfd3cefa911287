"""The prior of what a change does to TPOT, from physics and the baseline's profile by part. Pure.

A decode step at batch 1 cannot be faster than its weight bytes over the memory bandwidth (the *floor*); what
is measured above it is *overhead*: dispatch, small kernels, Python. From this follow expectations, each as a
normal on the log scale of candidate over baseline with a standard deviation that says how far to trust it:

- pruning removes the measured time of the layers that go;
- compilation removes a share of the overhead, and how large a share is nearly unknown;
- the number format scales the floor, and leaves or worsens the overhead;
- threads: what the sweep before trial 0 measured; nearly nothing is known otherwise.

Effects of several levers add on the log scale. A lever that this page does not know is expected to do
nothing, with a wide spread.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agent.surrogate.levers import Setting
from experiments.engines.port import PartTime
from experiments.space.configuration import Configuration, KnobValue

BITS_OF = {"float32": 32.0, "bfloat16": 16.0, "float16": 16.0, "fp8": 8.0, "int8": 8.0, "int4": 4.0}
"""Bits of a weight in the number formats that a knob may name."""

COMPILE_SHARE_REMOVED = 0.4
"""Share of the overhead that compiling the step is expected to remove; judgement: Python and dispatch go,
the kernels' own time stays."""

COMPILE_SHARE_SD = 0.3
"""Its standard deviation: from nothing gained to almost all of it."""

FLOOR_SHARE_UNKNOWN = 0.3
"""Share of the step that bytes explain when the bandwidth is not known."""

DTYPE_SD_LOG = 0.35
"""A narrower format without hardware support may cost as much as it saves (bfloat16 on a CPU)."""

THREADS_SD_LOG = 0.25
"""Another number of threads, never measured: a factor of 1.3 either way."""

SWEEP_SD_LOG = 0.05
"""What a ratio of two launches of the sweep is trusted with: one launch each, a few blocks."""

PRUNING_SD_SHARE = 0.5
"""Standard deviation of a pruned layer's saving, as a share of it: layers overlap with nothing at batch 1,
but which of them go is not known here, and hooks that time them are not exact."""

LEAST_SD_LOG = 0.01
"""No expectation is trusted more closely than this."""

UNKNOWN_SD_LOG = 0.2
"""Standard deviation for a lever that this page does not know."""

MOST_REMOVED = 0.95
"""No change is expected to remove a larger share of the step than this."""

MS_PER_S = 1e3

_LAYER = re.compile(r"layers\.(\d+)(?:\.|$)")


@dataclass(frozen=True)
class Expectation:
    """Log of TPOT with a lever's setting over the baseline's: a normal."""

    mean_log: float
    sd_log: float


@dataclass(frozen=True)
class Physics:
    """What the prior is derived from.

    `tpot_ms` is the baseline's, `profile` its time and weight bytes by part (times are used as shares of the
    step, since profiling slows it), `model_layers` the kind of each layer, `bandwidth_bytes_per_s` what the
    memory gives (None if unknown) and `measured_tpot_ms` what the sweep before trial 0 measured.
    """

    baseline: Configuration
    tpot_ms: float
    profile: Sequence[PartTime] = ()
    model_layers: Sequence[str] = ()
    bandwidth_bytes_per_s: float | None = None
    measured_tpot_ms: Mapping[Configuration, float] = field(default_factory=dict)

    @property
    def weight_bytes(self) -> int:
        """Weight bytes that a step reads."""
        return sum(part.weight_bytes for part in self.profile)

    @property
    def floor_ms(self) -> float:
        """Least time of a step: its bytes over the bandwidth; an assumed share where that is unknown."""
        if self.bandwidth_bytes_per_s is None or self.weight_bytes == 0:
            return FLOOR_SHARE_UNKNOWN * self.tpot_ms
        return min(self.tpot_ms, MS_PER_S * self.weight_bytes / self.bandwidth_bytes_per_s)

    @property
    def overhead_ms(self) -> float:
        """Measured time above the floor."""
        return self.tpot_ms - self.floor_ms

    def layer_shares(self) -> dict[int, float]:
        """Share of the step that each layer takes; an even split of all but nothing without a profile."""
        total = math.fsum(part.time_ms for part in self.profile)
        shares: dict[int, float] = {}
        for part in self.profile:
            layer = _LAYER.match(part.part)
            if layer and total > 0:
                number = int(layer[1])
                shares[number] = shares.get(number, 0.0) + part.time_ms / total
        if not shares and self.model_layers:
            return {number: 1 / (len(self.model_layers) + 1) for number in range(len(self.model_layers))}
        return shares

    def expect(self, lever: str, setting: Setting) -> Expectation:
        """What a lever's setting does to the baseline's TPOT."""
        measured = self._swept(setting)
        if measured is not None:
            return Expectation(math.log(measured / self.tpot_ms), SWEEP_SD_LOG)
        knobs = dict(setting)
        if lever == "pruning":
            return self._pruning(knobs)
        if lever == "compile":
            return self._compile()
        if lever == "dtype":
            return self._dtype(knobs)
        if lever == "threads":
            return Expectation(0.0, THREADS_SD_LOG)
        return Expectation(0.0, UNKNOWN_SD_LOG)

    def _swept(self, setting: Setting) -> float | None:
        if any(value is None for _, value in setting):
            return None
        knobs: dict[str, KnobValue] = {**self.baseline, **{k: v for k, v in setting if v is not None}}
        return self.measured_tpot_ms.get(Configuration.of(knobs))

    def _pruning(self, knobs: Mapping[str, KnobValue | None]) -> Expectation:
        removed = knobs.get("pruning.layers_removed")
        count = removed if isinstance(removed, int) else 1
        shares = self.layer_shares()
        kind = knobs.get("pruning.restrict")
        chosen = [
            share for number, share in shares.items() if self._may_go(number, str(kind) if kind else "any")
        ] or list(shares.values())
        if not chosen:
            return Expectation(0.0, UNKNOWN_SD_LOG)
        saved = min(MOST_REMOVED, count * math.fsum(chosen) / len(chosen))
        mean = math.log1p(-saved)
        return Expectation(mean, max(LEAST_SD_LOG, PRUNING_SD_SHARE * abs(mean)))

    def _may_go(self, layer: int, restrict: str) -> bool:
        if restrict == "any" or layer >= len(self.model_layers):
            return restrict == "any"
        linear = any(word in self.model_layers[layer] for word in ("linear", "gdn"))
        return linear == (restrict == "gdn")

    def _compile(self) -> Expectation:
        overhead = self.overhead_ms / self.tpot_ms
        mean = math.log1p(-min(MOST_REMOVED, COMPILE_SHARE_REMOVED * overhead))
        # to first order: d log(1 − s·o) = −o·ds / (1 − s·o)
        spread = overhead * COMPILE_SHARE_SD / (1 - COMPILE_SHARE_REMOVED * overhead)
        return Expectation(mean, max(LEAST_SD_LOG, spread))

    def _dtype(self, knobs: Mapping[str, KnobValue | None]) -> Expectation:
        for knob, value in knobs.items():
            now, then = BITS_OF.get(str(self.baseline.get(knob))), BITS_OF.get(str(value))
            if now and then:
                floor = self.floor_ms / self.tpot_ms
                return Expectation(math.log(1 - floor + floor * then / now), DTYPE_SD_LOG)
        return Expectation(0.0, DTYPE_SD_LOG)
