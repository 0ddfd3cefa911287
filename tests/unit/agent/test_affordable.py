"""A test takes as many launch pairs as the campaign's budget pays for, within the plan's most."""

from __future__ import annotations

import pytest

from agent.campaign.affordable import (
    LEAST_BLOCKS,
    LEAST_PAIRS,
    QUICK_PAIR_S,
    affordable_pairs,
    pair_seconds,
    quick_blocks,
    quick_pair_seconds,
    slow_quick_pair,
)
from experiments.measurement.evidence import Arm, LaunchRecord, Metric, Sample, Stage

BLOCKS = 6


def launch(load_s: float, block_s: float, stage: Stage = Stage.NOISE, blocks: int = 3) -> LaunchRecord:
    samples = tuple(
        Sample(block, block, "prompt", 2 * block + each, Metric.E2EL_MS, 500 * block_s)
        for block in range(blocks)
        for each in range(2)
    )
    return LaunchRecord(Arm.CONTROL, 0, stage, "digest", {}, {}, load_s, samples)


def test_a_pair_costs_two_launches_and_the_requests_of_its_blocks() -> None:
    launches = [launch(3.0, 0.5), launch(5.0, 0.5), launch(4.0, 0.5), launch(90.0, 9.0, Stage.SWEEP)]
    assert pair_seconds(launches, BLOCKS) == pytest.approx(2 * (4.0 + BLOCKS * 0.5))


def test_without_noise_launches_the_cost_of_a_pair_is_not_known() -> None:
    assert pair_seconds([launch(3.0, 0.5, Stage.SWEEP)], BLOCKS) is None
    assert affordable_pairs(16, 540.0, None) == 16


@pytest.mark.parametrize(
    ("budget_s", "pair_s", "pairs"),
    [
        (540.0, 15.0, LEAST_PAIRS),  # nine minutes: 45 s pay for three
        (1800.0, 15.0, 10),
        (7200.0, 15.0, 16),
        (60.0, 600.0, LEAST_PAIRS),
    ],
)
def test_pairs_grow_with_the_budget_up_to_the_plans_most(budget_s: float, pair_s: float, pairs: int) -> None:
    assert affordable_pairs(16, budget_s, pair_s) == pairs


def test_a_plan_of_few_pairs_keeps_them() -> None:
    assert affordable_pairs(2, 540.0, 15.0) == 2


@pytest.mark.parametrize(
    ("load_s", "block_s", "blocks"),
    [
        (10.0, 2.0, 4),  # 10 + 2 · 4.5 · 2 = 28 s
        (20.0, 4.5, 3),  # with 4 blocks 60.5 s, with 3 51.5 s
        (20.0, 30.0, LEAST_BLOCKS),
        (100.0, 0.1, LEAST_BLOCKS),
    ],
)
def test_the_quick_pair_has_as_many_blocks_as_keep_it_within_a_minute(
    load_s: float, block_s: float, blocks: int
) -> None:
    launches = [launch(load_s, block_s)] * 3
    assert quick_blocks(4, launches, 0.5) == blocks
    seconds = quick_pair_seconds(launches, blocks, 0.5)
    assert seconds == pytest.approx(load_s + 2 * (blocks + 0.5) * block_s)
    told = slow_quick_pair(launches, blocks, 0.5)
    assert (told is None) == (seconds <= QUICK_PAIR_S)
    assert told is None or f"{seconds:.0f} s, {load_s:.0f} s of them to load" in told


def test_a_quick_pair_of_unknown_length_has_the_plans_blocks_and_nothing_is_said() -> None:
    assert quick_blocks(4, []) == 4
    assert quick_blocks(2, [launch(1.0, 0.1)]) == 2
    assert slow_quick_pair([], 4) is None
