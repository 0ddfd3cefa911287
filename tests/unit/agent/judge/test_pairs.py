"""From samples to the effect of a launch pair."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.judge.pairs import pair_effects
from experiments.measurement.evidence import (
    Arm,
    Evidence,
    LaunchRecord,
    Metric,
    NoiseProfile,
    Sample,
    Stage,
)
from experiments.measurement.location import hodges_lehmann

NOISE = NoiseProfile("target", Metric.TPOT_MS, 0, 0, None)
LEADS = (Arm.CONTROL, Arm.CANDIDATE, Arm.CANDIDATE, Arm.CONTROL)


def launch(
    arm: Arm, values: list[list[float]], index: int = 0, metric: Metric = Metric.TPOT_MS, first_block: int = 0
) -> LaunchRecord:
    samples = [
        Sample(block, 2 * block, f"p{block}.{k}", 0, metric, value)
        for block, row in enumerate(values, start=first_block)
        for k, value in enumerate(row)
    ]
    return LaunchRecord(arm, index, Stage.QUICK, arm.value, {}, {}, 1.0, tuple(samples))


def effect(
    control: list[list[float]], candidate: list[list[float]], metric: Metric = Metric.TPOT_MS
) -> float:
    launches = (launch(Arm.CONTROL, control, metric=metric), launch(Arm.CANDIDATE, candidate, metric=metric))
    [found] = pair_effects(Evidence(launches, NOISE, ()), metric)
    return found.effect_log


@given(
    st.floats(0.2, 5), st.lists(st.lists(st.floats(1, 100), min_size=2, max_size=2), min_size=1, max_size=6)
)
def test_a_constant_ratio_is_found_exactly_whatever_the_prompts_cost(
    ratio: float, values: list[list[float]]
) -> None:
    faster = [[ratio * value for value in row] for row in values]
    assert effect(values, faster) == pytest.approx(math.log(ratio), abs=1e-9)


@given(st.floats(-0.05, 0.05), st.floats(0.5, 2), st.sampled_from([2, 4, 6]))
def test_a_linear_drift_of_the_machine_cancels_over_alternating_couples(
    drift: float, ratio: float, blocks: int
) -> None:
    order = [LEADS[k % 4] for k in range(2 * blocks)]
    values: dict[Arm, list[list[float]]] = {arm: [] for arm in Arm}
    for position, arm in enumerate(order):
        level = 20.0 * (ratio if arm == Arm.CANDIDATE else 1.0)
        values[arm].append([level * math.exp(drift * position)])
    found = effect(values[Arm.CONTROL], values[Arm.CANDIDATE])
    assert found == pytest.approx(math.log(ratio), abs=1e-9)


def test_one_interrupted_block_of_six_hardly_moves_the_pair() -> None:
    steady = [[20.0, 20.0] for _ in range(6)]
    interrupted = [[18.0, 18.0] for _ in range(5)] + [[90.0, 90.0]]
    assert effect(steady, interrupted) == pytest.approx(math.log(0.9), abs=1e-9)


def test_one_interrupted_request_of_a_block_of_three_does_not_move_the_block() -> None:
    assert effect([[20.0, 20.0, 20.0]], [[18.0, 100.0, 18.0]]) == pytest.approx(math.log(0.9))


def test_more_tokens_a_second_is_a_negative_effect() -> None:
    assert effect([[50.0]], [[100.0]], Metric.TOKENS_PER_S) == pytest.approx(math.log(0.5))


def test_a_block_that_only_one_arm_ran_is_left_out() -> None:
    assert effect([[20.0], [20.0]], [[10.0]]) == pytest.approx(math.log(0.5))


def test_a_launch_without_its_partner_gives_nothing() -> None:
    evidence = Evidence((launch(Arm.CONTROL, [[1.0]]), launch(Arm.CANDIDATE, [[1.0]], index=1)), NOISE, ())
    assert pair_effects(evidence, Metric.TPOT_MS) == ()


def test_blocks_measured_further_on_the_same_pair_join_it() -> None:
    records = (
        launch(Arm.CONTROL, [[20.0], [20.0]]),
        launch(Arm.CANDIDATE, [[10.0], [10.0]]),
        launch(Arm.CONTROL, [[20.0]], first_block=2),
        launch(Arm.CANDIDATE, [[10.0]], first_block=2),
    )
    [found] = pair_effects(Evidence(records, NOISE, ()), Metric.TPOT_MS)
    assert (found.blocks, found.samples) == (3, 6)


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=7), st.floats(-5, 5))
def test_the_centre_moves_with_its_values_and_lies_among_them(values: list[float], shift: float) -> None:
    centre = hodges_lehmann(values)
    assert min(values) - 1e-9 <= centre <= max(values) + 1e-9
    assert hodges_lehmann([v + shift for v in values]) == pytest.approx(centre + shift, abs=1e-9)


def test_pairs_come_in_order_of_their_index() -> None:
    records = tuple(launch(arm, [[20.0]], index=index) for index in (2, 0, 1) for arm in Arm)
    found = [pair.index for pair in pair_effects(Evidence(records, NOISE, ()), Metric.TPOT_MS)]
    assert all(a < b for a, b in pairwise(found))
