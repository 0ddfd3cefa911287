"""A test takes as many launch pairs as the budget pays for, and as many blocks as its prediction needs."""

from __future__ import annotations

import math

import pytest

from agent.plan.length import (
    LEAST_BLOCKS,
    LEAST_PAIRS,
    QUICK_PAIR_S,
    affordable_pairs,
    blocks_for,
    length_of,
    length_told,
    pair_seconds,
    quick_blocks,
    quick_pair_seconds,
    slow_quick_pair,
)
from configs.quantities import format_duration
from experiments.measurement.evidence import Arm, LaunchRecord, Metric, NoiseProfile, Sample, Stage
from experiments.measurement.plan import Prediction, StoppingPlan

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
    assert told is None or f"{format_duration(seconds)}, {format_duration(load_s)} of it to load" in told


def test_a_quick_pair_of_unknown_length_has_the_plans_blocks_and_nothing_is_said() -> None:
    assert quick_blocks(4, []) == 4
    assert quick_blocks(2, [launch(1.0, 0.1)]) == 2
    assert slow_quick_pair([], 4) is None


def timed(spread: float, load_s: float = 1.0, block_s: float = 1.0) -> LaunchRecord:
    """A noise launch of four blocks whose medians have the standard deviation `spread` (log)."""
    step = spread * math.sqrt(3 / 5)
    samples = tuple(
        sample
        for block, place in enumerate((-1.5, -0.5, 0.5, 1.5))
        for sample in (
            Sample(block, block, "prompt", block, Metric.TPOT_MS, 10 * math.exp(step * place)),
            Sample(block, block, "prompt", block, Metric.E2EL_MS, 1000 * block_s),
        )
    )
    return LaunchRecord(Arm.CONTROL, 0, Stage.NOISE, "digest", {}, {}, load_s, samples)


def plan_for(gain: float) -> StoppingPlan:
    return StoppingPlan(
        prediction=Prediction(log_ratio_mean=math.log(1 - gain), log_ratio_sd=0.1),
        quick_blocks=4,
        full_blocks=6,
    )


KNOWN = NoiseProfile("target", Metric.TPOT_MS, 9, 8, 0.01)


@pytest.mark.parametrize(
    ("gain", "spread", "blocks"),
    [
        (0.6, 0.10, LEAST_BLOCKS),
        (0.6, 0.0, LEAST_BLOCKS),
        (0.2, 0.10, 3),
        (0.05, 0.10, 6),  # what is small needs all of them, and more pairs
        (0.01, 0.0, 6),  # less than min_effect
        (-0.2, 0.0, 6),
    ],
)
def test_a_large_effect_is_timed_with_fewer_blocks(gain: float, spread: float, blocks: int) -> None:
    assert blocks_for(plan_for(gain), [timed(spread)] * 3, KNOWN) == blocks


def test_blocks_that_cost_less_than_loading_are_not_spared() -> None:
    assert blocks_for(plan_for(0.6), [timed(0.1, load_s=8.0)] * 3, KNOWN) == 4
    assert blocks_for(plan_for(0.6), [timed(0.1, load_s=60.0)] * 3, KNOWN) == 6


def test_without_a_spread_or_a_profile_the_plans_blocks_stand() -> None:
    unknown = NoiseProfile("target", Metric.TPOT_MS, 1, 0, None)
    assert blocks_for(plan_for(0.6), [timed(0.1)], unknown) == 6
    assert blocks_for(plan_for(0.6), [launch(1.0, 1.0)], KNOWN) == 6, "no sample of the metric"
    assert blocks_for(plan_for(0.6), [], KNOWN) == 6


@pytest.mark.parametrize(("gain", "told"), [(0.6, 2), (0.01, 1)])
def test_a_shorter_test_says_why(gain: float, told: int) -> None:
    plan = plan_for(gain)
    length = length_of(plan, 60.0, [timed(0.1)] * 3, KNOWN)
    shorter = length.of(plan)
    assert (shorter.full_pairs, shorter.full_blocks) == (length.full_pairs, length.full_blocks)
    assert shorter.quick_blocks <= shorter.full_blocks
    said = length_told(plan, length)
    assert len(said) == told
    assert said[0] == f"the budget pays for {LEAST_PAIRS} of the plan's 16 exploratory launch pairs"
    assert all("shows with 2 of the plan's 6 blocks a launch" in each for each in said[1:])
    scored = plan.model_copy(update={"metric": Metric.NLL_BITS})
    assert length_told(scored, length) == ()
