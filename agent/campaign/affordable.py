"""How many launch pairs a test may take: what the campaign's budget pays for, up to the plan's most.

A small gain needs many pairs and most gains need few, so the plan allows many and the judge stops early. But
in a campaign of minutes one question near `min_effect` could eat the time of all the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import median

from experiments.measurement.evidence import LaunchRecord, Metric, Stage

TEST_SHARE = 1 / 12
"""Most of the campaign's budget that the pairs of one test may take: a short campaign judges some hypotheses
all the same."""

LEAST_PAIRS = 4
"""Exploratory pairs that any budget allows: with fewer, hardly any gain could be told from noise."""

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


def _block_s(launch: LaunchRecord) -> float:
    blocks = {sample.block for sample in launch.samples}
    return math.fsum(launch.values(Metric.E2EL_MS)) / MS_PER_S / len(blocks)
