"""How long a test may take: launch pairs that the campaign's budget pays for, and a quick pair that is quick.

A small gain needs many pairs and most gains need few, so the plan allows many and the judge stops early. But
in a campaign of minutes one question near `min_effect` could eat the time of all the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median

from experiments.measurement.evidence import LaunchRecord, Metric, Stage

TEST_SHARE = 1 / 12
"""Most of the campaign's budget that the pairs of one test may take: a short campaign judges some hypotheses
all the same."""

LEAST_PAIRS = 4
"""Exploratory pairs that any budget allows: with fewer, hardly any gain could be told from noise."""

QUICK_PAIR_S = 60.0
"""Most seconds that the quick pair is to take, loads included, so that a first look is soon there."""

LEAST_BLOCKS = 2
"""Blocks an arm that any pair has: with one, a drift of the machine would be an effect."""

ARMS = 2
MS_PER_S = 1e3


def pair_seconds(baseline: Iterable[LaunchRecord], blocks: int) -> float | None:
    """Expected seconds of a launch pair of `blocks` blocks an arm, as the baseline's noise launches ran.

    None if there are none.
    """
    launches = [each for each in baseline if each.stage is Stage.NOISE and each.samples]
    if not launches:
        return None
    return ARMS * median(each.load_s + blocks * _block_s(each) for each in launches)


def affordable_pairs(most: int, budget_s: float, pair_s: float | None) -> int:
    """Exploratory pairs of a test: `most`, or what `TEST_SHARE` of the budget pays for, `LEAST_PAIRS` at
    least; never more than `most`."""
    if not pair_s:
        return most
    return min(most, max(LEAST_PAIRS, math.floor(TEST_SHARE * budget_s / pair_s)))


def quick_pair_seconds(
    baseline: Iterable[LaunchRecord], blocks: int, warmup_blocks: float = 0.0
) -> float | None:
    """Expected seconds on the clock of a launch pair; None without noise launches.

    Both load at the same time, and their blocks and warm-ups, each as long as `warmup_blocks` blocks, come
    one after the other.
    """
    launches = [each for each in baseline if each.stage is Stage.NOISE and each.samples]
    if not launches:
        return None
    return median(each.load_s + ARMS * (blocks + warmup_blocks) * _block_s(each) for each in launches)


def quick_blocks(most: int, baseline: Sequence[LaunchRecord], warmup_blocks: float = 0.0) -> int:
    """Blocks an arm of the quick pair: `most`, or as many as keep it within `QUICK_PAIR_S`, `LEAST_BLOCKS` at
    least."""
    for blocks in range(most, LEAST_BLOCKS, -1):
        seconds = quick_pair_seconds(baseline, blocks, warmup_blocks)
        if seconds is None or seconds <= QUICK_PAIR_S:
            return blocks
    return min(most, LEAST_BLOCKS)


def slow_quick_pair(baseline: Sequence[LaunchRecord], blocks: int, warmup_blocks: float = 0.0) -> str | None:
    """What to say of a quick pair that is not quick, as a clause; None of one that is, or is not known."""
    seconds = quick_pair_seconds(baseline, blocks, warmup_blocks)
    if seconds is None or seconds <= QUICK_PAIR_S:
        return None
    loading = quick_pair_seconds(baseline, 0)
    return (
        f"its quick pair of {blocks} blocks an arm is expected to take {seconds:.0f} s, {loading:.0f} s of "
        f"them to load, and not the {QUICK_PAIR_S:.0f} s that a first look may take"
    )


def _block_s(launch: LaunchRecord) -> float:
    blocks = {sample.block for sample in launch.samples}
    return math.fsum(launch.values(Metric.E2EL_MS)) / MS_PER_S / len(blocks)
