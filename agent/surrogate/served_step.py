"""A step as a served token had it: what no kernel runs in, in a profile that was slower than what is served.
Pure.

A profile tells the kernels of a step, and takes what is left of one that was served within the engine as time
outside them. The processor does its part of a step while the GPU works on the one before, and on a machine
that others share it is slow at one time and fast at another: a step of 2.71 ms of kernels took 3.62 as it was
profiled, and 2.70 to 3.65 in the blocks of the same test (E-0002 of docs/results/
h200-campaign-vllm-0.33-humming.md). What was timed over many more tokens is the better word on how long the
GPU waits, and all that shorter waits could save.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from agent.surrogate.kernel_parts import OUTSIDE
from experiments.engines.port import PartTime


def as_served(profile: Sequence[PartTime], token_ms: float) -> tuple[PartTime, ...]:
    """A profile with no more time outside kernels than a token of `token_ms` leaves for it; as it was where
    that is no less, or where it has no such part."""
    kernels_ms = math.fsum(part.time_ms for part in profile if part.kind != OUTSIDE)
    left_ms = max(0.0, token_ms - kernels_ms)
    return tuple(
        replace(part, time_ms=min(part.time_ms, left_ms)) if part.kind == OUTSIDE else part
        for part in profile
    )
