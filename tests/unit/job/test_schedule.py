from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.job.schedule import abba, round_robin, seats
from experiments.measurement.evidence import Arm

A, B = Arm.CONTROL, Arm.CANDIDATE


def test_first_pair_runs_a_b_b_a_b_a_a_b():
    assert abba(seed=0, pair=0, first_block=0, blocks=4) == (A, B, B, A, B, A, A, B)


def test_first_arm_alternates_with_seed_and_pair():
    assert abba(0, 0, 0, 1)[0] is not abba(1, 0, 0, 1)[0]
    assert abba(0, 0, 0, 1)[0] is not abba(0, 1, 0, 1)[0]
    assert abba(1, 1, 0, 1)[0] is abba(0, 0, 0, 1)[0]


@given(st.integers(0, 99), st.integers(0, 99))
def test_of_two_successive_pairs_each_arm_has_the_first_seat_in_one(seed: int, pair: int):
    one, other = seats(seed, pair), seats(seed, pair + 1)
    assert {one, other} == {(A, B), (B, A)}
    assert seats(seed + 1, pair) == other
    assert abba(seed, pair, 0, 1) == one


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 20), st.integers(1, 20))
def test_each_arm_gets_each_block_once_side_by_side(seed: int, pair: int, first: int, blocks: int):
    order = abba(seed, pair, first, blocks)
    assert len(order) == 2 * blocks
    assert all({order[2 * n], order[2 * n + 1]} == {A, B} for n in range(blocks))


@given(st.integers(0, 9), st.integers(0, 9), st.integers(1, 15), st.integers(1, 15))
def test_measuring_further_continues_the_same_order(seed: int, pair: int, first: int, more: int):
    assert abba(seed, pair, 0, first + more) == abba(seed, pair, 0, first) + abba(seed, pair, first, more)


@given(st.integers(0, 9), st.integers(0, 9), st.integers(1, 8), st.floats(-5, 5))
def test_linear_drift_cancels_over_complete_rounds(seed: int, pair: int, rounds: int, slope: float):
    order = abba(seed, pair, 0, 2 * rounds)
    drift = {arm: sum(slope * place for place, each in enumerate(order) if each is arm) for arm in Arm}
    assert drift[A] == pytest.approx(drift[B])


@given(st.integers(0, 9), st.integers(1, 4), st.floats(-5, 5))
def test_quadratic_drift_cancels_over_four_blocks_an_arm(pair: int, rounds: int, curve: float):
    order = abba(0, pair, 0, 4 * rounds)
    drift = {arm: sum(curve * place**2 for place, each in enumerate(order) if each is arm) for arm in Arm}
    assert drift[A] == pytest.approx(drift[B])


@given(st.integers(), st.integers(1, 9), st.integers(1, 12))
def test_every_round_times_every_launch_once(seed: int, launches: int, rounds: int):
    order = round_robin(seed, launches, rounds)
    assert len(order) == rounds
    assert all(sorted(each) == list(range(launches)) for each in order)


@given(st.integers(), st.integers(1, 9), st.integers(1, 6))
def test_linear_drift_cancels_over_an_even_number_of_rounds(seed: int, launches: int, couples: int):
    places: Counter[int] = Counter()
    for number, order in enumerate(round_robin(seed, launches, 2 * couples)):
        for place, launch in enumerate(order):
            places[launch] += number * launches + place
    assert len(set(places.values())) == 1
