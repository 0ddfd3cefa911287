"""A profiled step against the token that was served with it: what may lie outside kernels. Pure.

A profile tells the kernels of a step, and takes what is left of one that was served within the engine as time
outside them. The processor does its part of a step while the GPU works on the one before, and it may be slow
at one time and fast at another: a step of 2.71 ms of kernels took 3.62 as it was profiled, and 2.70 to 3.65
in the blocks of the same test (E-0002 of docs/results/h200-campaign-vllm-0.33-humming.md). What was timed
over many more tokens is the better word on how long the GPU waits.
"""

from __future__ import annotations

OUTSIDE = "outside"
"""The kind of what lies outside a GPU's kernels."""


def as_served(kernels_ms: float, outside_ms: float, token_ms: float) -> tuple[float, float]:
    """By what the time of kernels is multiplied, and what lies outside them, of a step by whose token
    `token_ms` went by: never more than was profiled. Where kernels alone took longer, for recording slows
    them, they are the whole token."""
    if kernels_ms > token_ms:
        return token_ms / kernels_ms, 0.0
    return 1.0, min(outside_ms, token_ms - kernels_ms)
