"""What of a pair's spread comes from launches, from blocks and from single requests. Pure.

Both arms of a pair answer the same prompts, so the difference d of the two logs of one prompt is free of the
prompt. In pair p, block b, request r:

    d_pbr = (L − L′) + (B − B′) + (e − e′),

each part with twice the variance of one side. Pairs, blocks within pairs and requests within blocks are
nested and balanced, so their mean squares are independent and known:

    E MS_pair = 2(σ_e² + R·σ_B² + B·R·σ_L²),   E MS_block = 2(σ_e² + R·σ_B²),   E MS_request = 2·σ_e².

The interval of a difference of two mean squares is the modified large sample one of Ting, Burdick, Graybill,
Jeyaratnam and Lu (Journal of Statistical Computation and Simulation 35, 1990).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from scipy.special import chdtri, fdtri

from agent.judge.aa_statistics import LEVEL, Estimate

_TAIL = (1 - LEVEL) / 2


@dataclass(frozen=True)
class Components:
    """Variances of one side's launch, block and request, and what each brings to the variance of a launch's
    mean over `blocks` blocks of `requests` requests. A share is of that sum; no estimate is below 0."""

    launches: Estimate
    blocks: Estimate
    requests: Estimate
    block_count: int
    request_count: int

    @property
    def shares(self) -> tuple[float, float, float]:
        """What launches, blocks and requests bring to the variance of a launch's mean; they sum to 1."""
        parts = (
            self.launches.value,
            self.blocks.value / self.block_count,
            self.requests.value / (self.block_count * self.request_count),
        )
        whole = math.fsum(parts)
        return (0.0, 0.0, 0.0) if whole == 0 else (parts[0] / whole, parts[1] / whole, parts[2] / whole)


def components(pairs: Sequence[Sequence[Sequence[float]]]) -> Components | None:
    """The variance components from the differences of pairs, by block and request.

    None where they can't be told apart: less than two pairs, blocks or requests. Pairs of another shape than
    the first are left out.
    """
    shape = [len(block) for block in pairs[0]] if pairs else []
    kept = [pair for pair in pairs if [len(block) for block in pair] == shape]
    n, blocks, requests = len(kept), len(shape), shape[0] if shape else 0
    if n < 2 or blocks < 2 or requests < 2 or len(set(shape)) > 1:
        return None
    by_block = [[fmean(block) for block in pair] for pair in kept]
    by_pair = [fmean(means) for means in by_block]
    middle = fmean(by_pair)
    between = blocks * requests * math.fsum((each - middle) ** 2 for each in by_pair) / (n - 1)
    among = math.fsum((b - p) ** 2 for means, p in zip(by_block, by_pair, strict=True) for b in means)
    among *= requests / (n * (blocks - 1))
    within = math.fsum(
        (d - b) ** 2
        for pair, means in zip(kept, by_block, strict=True)
        for block, b in zip(pair, means, strict=True)
        for d in block
    ) / (n * blocks * (requests - 1))
    launch = _difference(between, n - 1, among, n * (blocks - 1), 2 * blocks * requests, n)
    block = _difference(among, n * (blocks - 1), within, n * blocks * (requests - 1), 2 * requests, n)
    freedom = n * blocks * (requests - 1)
    low, high = (within / 2 * freedom / float(chdtri(freedom, tail)) for tail in (_TAIL, 1 - _TAIL))
    return Components(launch, block, Estimate(within / 2, low, high, n), blocks, requests)


def _difference(
    upper: float, upper_freedom: int, lower: float, lower_freedom: int, divisor: float, n: int
) -> Estimate:
    """(E upper − E lower) / divisor with its interval; what lies below 0 is told as 0."""
    m, k = upper_freedom, lower_freedom
    value = upper - lower
    # the notation of the paper: F quantiles at the upper tail, with infinity as second degrees of freedom
    f_low, f_high = float(fdtri(m, k, 1 - _TAIL)), float(fdtri(m, k, _TAIL))
    g_upper, h_upper = 1 - m / float(chdtri(m, _TAIL)), m / float(chdtri(m, 1 - _TAIL)) - 1
    g_lower, h_lower = 1 - k / float(chdtri(k, _TAIL)), k / float(chdtri(k, 1 - _TAIL)) - 1
    mixed_low = ((f_low - 1) ** 2 - (g_upper * f_low) ** 2 - h_lower**2) / f_low
    mixed_high = ((1 - f_high) ** 2 - (h_upper * f_high) ** 2 - g_lower**2) / f_high
    below = (g_upper * upper) ** 2 + (h_lower * lower) ** 2 + mixed_low * upper * lower
    above = (h_upper * upper) ** 2 + (g_lower * lower) ** 2 + mixed_high * upper * lower
    low, high = value - math.sqrt(max(0.0, below)), value + math.sqrt(max(0.0, above))
    found, least, most = (max(0.0, each / divisor) for each in (value, low, high))
    return Estimate(found, least, most, n)
