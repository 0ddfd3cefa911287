"""Beliefs with and without what was carried: who foretells badly loses its weight, whatever it claims."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.surrogate.averaged import BELIEVED, LEAST_BELIEVED, Averaged, Member
from agent.surrogate.hearing import FARTHEST, Row, heard_after
from agent.surrogate.linear import SCALE_COUNT, LinearBelief

NOISE = 0.05**2
NAMES = ("compile", "kernel", "pruning")

features = st.dictionaries(st.sampled_from(NAMES), st.floats(-0.4, 0.4), min_size=1)
rows = st.tuples(features, st.floats(-3, 3), st.just(NOISE))


def mixture_log(belief: Averaged, weights: Sequence[float], row: Row) -> float:
    """Log density that the members give to an outcome, by these weights."""
    parts = [
        math.log(weight) + density_log(member.belief, row)
        for member, weight in zip(belief.members, weights, strict=True)
        if weight > 0
    ]
    most = max(parts)
    return most + math.log(math.fsum(math.exp(each - most) for each in parts))


def density_log(belief: LinearBelief, row: Row) -> float:
    """Log density of Student's t that a regression with a learnt scale gives to an outcome."""
    mean, variance = belief.predict([row[0]])
    spread = math.sqrt(float(variance[0]) + belief.scale**2 * row[2])
    degrees = SCALE_COUNT + belief.count
    z = (row[1] - float(mean[0])) / spread
    return (
        math.lgamma((degrees + 1) / 2)
        - math.lgamma(degrees / 2)
        - 0.5 * math.log(degrees * math.pi)
        - math.log(spread)
        - (degrees + 1) / 2 * math.log1p(z**2 / degrees)
    )


def carried(*told: Row, scope: str = "C-1") -> dict[str, list[Row]]:
    """Rows of a campaign with a share of 0.5 that may differ."""
    return {
        scope: [
            ({**row, **{f"{name} in {scope}": 0.5 * value for name, value in row.items()}}, residual, noise)
            for row, residual, noise in told
        ]
    }


@pytest.mark.parametrize("farthest", [math.inf, FARTHEST])
@given(st.lists(rows, max_size=6), st.lists(rows, min_size=1, max_size=6))
def test_whatever_was_told_the_average_foretells_nearly_as_well_as_without_it(
    farthest: float, told: list[Row], own: list[Row]
) -> None:
    """The law that bounds the harm: over all outcomes together, as they are heard, it loses at most −log of
    the weight that knowing nothing had at first."""
    averaged, alone = Averaged.learn([], carried(*told), farthest), LinearBelief.learn([], [], [])
    worst = -math.log(averaged.weights[0])
    with_, without = 0.0, 0.0
    for each in own:
        row = heard_after(alone, each, farthest)
        with_ += mixture_log(averaged, averaged.weights, row)
        without += density_log(alone, row)
        averaged, alone = averaged.after(*row), alone.after(*row)
    assert with_ >= without - worst - 1e-6


@given(st.lists(rows, max_size=6), st.lists(rows, max_size=6), st.lists(rows, min_size=1, max_size=8))
def test_of_those_that_speak_the_same_holds_but_for_what_comes_back(
    told: list[Row], more: list[Row], own: list[Row]
) -> None:
    averaged = Averaged.learn([], {**carried(*told), **carried(*more, scope="C-2")})
    alone = LinearBelief.learn([], [], [])
    worst, lost = -math.log(averaged.weights[0]), 0.0
    for row in own:
        lost += density_log(alone, row) - mixture_log(averaged, averaged.spoken, row)
        before, averaged, alone = averaged.spoken, averaged.after(*row), alone.after(*row)
        spoke, speak = (
            math.fsum(weight for weight, voice in zip(averaged.weights, voices, strict=True) if voice)
            for voices in (before, averaged.spoken)
        )
        worst += max(0.0, math.log(speak / spoke))
    assert lost <= worst + 1e-6


@pytest.mark.parametrize("farthest", [math.inf, FARTHEST])
@given(st.lists(rows, max_size=5), st.lists(rows, max_size=5))
def test_weights_one_after_another_are_those_of_all_at_once(
    farthest: float, told: list[Row], own: list[Row]
) -> None:
    at_once = Averaged.learn(own, carried(*told), farthest)
    one_by_one = Averaged.learn([], carried(*told), farthest)
    for row in own:
        one_by_one = one_by_one.after(*row)
    assert one_by_one.weights == pytest.approx(at_once.weights, abs=1e-6)


def test_without_anything_carried_it_is_the_regression_itself() -> None:
    own: list[Row] = [({"compile": 0.2}, -0.3, NOISE)]
    alone = LinearBelief.learn(*map(list, zip(*own, strict=True)))
    found, wanted = Averaged.learn(own, {}), alone.predict([{"compile": 0.2}])
    assert found.predict([{"compile": 0.2}]) == wanted
    assert (found.scale, found.carried_weight) == (alone.scale, 0)


def test_what_physics_thinks_possible_is_believed_and_what_it_does_not_hardly_at_all() -> None:
    likely = carried(({"compile": 0.2}, -0.2, NOISE), ({"kernel": 0.2}, 0.1, NOISE))
    absurd = carried(({"compile": 0.2}, -3.0, NOISE), ({"kernel": 0.2}, 2.5, NOISE))
    assert Averaged.learn([], likely).carried_weight == pytest.approx(BELIEVED)
    assert Averaged.learn([], absurd).carried_weight == pytest.approx(LEAST_BELIEVED)


def test_claims_that_are_all_off_by_twice_what_is_stated_are_not_thrown_out_and_far_wilder_are() -> None:
    """How wide the stated spreads should have been is open, but only so far."""
    weights = [
        Averaged.learn([], carried(*told)).carried_weight
        for told in (
            [({f"lever {number}": 0.2}, (-1) ** number * 0.2 * times, NOISE) for number in range(8)]
            for times in (1, 2, 6)
        )
    ]
    assert weights[0] == pytest.approx(BELIEVED)
    assert BELIEVED / 3 < weights[1] < BELIEVED
    assert weights[2] == pytest.approx(LEAST_BELIEVED)


def test_claims_that_contradict_each_other_are_not_believed_since_spreads_may_be_too_narrow() -> None:
    """They may be too wide as well, and then what has nothing to do with it lies no further off than that."""
    told = carried(*[({"lever": 0.5}, sign * 0.5, 0.2**2) for sign in (1, -1, 1, -1)])
    assert Averaged.learn([], told).carried_weight < BELIEVED / 3


def test_what_physics_expects_the_other_way_round_is_believed_the_less_the_surer_it_is() -> None:
    """Physics expects −0.5 of each, and +0.5 was told: the residual is 1, and 0 had it been turned."""
    weights = []
    for spread in (0.3, 0.5, 1.0):
        told, turned = (
            {"C-1": [({name: spread}, residual, NOISE) for name in ("compile", "kernel")]}
            for residual in (1.0, 0.0)
        )
        assert Averaged.learn([], turned, turned=told).carried_weight == pytest.approx(BELIEVED)
        weights.append(Averaged.learn([], told, turned=turned).carried_weight)
    assert weights[0] < BELIEVED / 20
    assert weights == sorted(weights)
    assert weights[2] < BELIEVED


def test_what_is_hardly_believed_is_not_predicted_from_whatever_it_claims() -> None:
    told = carried(({"compile": 0.2}, -3.0, NOISE), ({"kernel": 0.2}, 2.5, NOISE))
    own: list[Row] = [({"compile": 0.2}, -0.1, NOISE)]
    found, alone = Averaged.learn(own, told), Averaged.learn(own, {})
    assert 0 < found.carried_weight < LEAST_BELIEVED
    asked = [{"compile": 0.2}, {"kernel": 0.2}]
    assert np.array_equal(found.predict(asked), alone.predict(asked))
    assert found.scale == alone.scale
    assert found.moved_by({"compile": 0.2}, [("C-1", row) for row in told["C-1"]]) == [0.0, 0.0]


@pytest.mark.parametrize(
    ("alone", "told", "speak"),
    [
        (1.0, 0.051, (True, True)),
        (1.0, 0.049, (True, False)),
        (1e-6, 1.0, (True, True)),
    ],
)
def test_who_is_at_least_a_twentieth_as_likely_speaks_and_who_was_told_nothing_always(
    alone: float, told: float, speak: tuple[bool, bool]
) -> None:
    nothing = LinearBelief.learn([], [], [])
    found = Averaged((Member((), nothing, math.log(alone)), Member(("C-1",), nothing, math.log(told))))
    assert tuple(weight > 0 for weight in found.spoken) == speak
    assert math.fsum(found.spoken) == pytest.approx(1)


def test_what_was_silent_speaks_again_once_outcomes_here_bear_it_out() -> None:
    borne_out: list[Row] = [
        ({"compile": 0.2}, -3.0, NOISE),
        ({"kernel": 0.2}, 2.5, NOISE),
        ({"pruning": 0.2}, 3, NOISE),
    ]
    at_first = Averaged.learn([], carried(*borne_out))
    after = Averaged.learn(borne_out, carried(*borne_out))
    assert at_first.spoken == (1.0, 0.0)
    assert after.spoken[1] == pytest.approx(after.carried_weight)
    assert after.carried_weight > 1000 * at_first.carried_weight


def test_what_was_told_makes_nothing_here_less_sure() -> None:
    """Claims that physics did not expect are no reason to foretell surprises of other things."""
    told = carried(*[({"compile": 0.3}, sign * 0.5, NOISE) for sign in (1, -1, 1, -1)])
    before = Averaged.learn([], told)
    after = before.after({"kernel": 0.3}, 1.2, NOISE)
    assert before.scale == pytest.approx(1)
    assert after.carried_weight == pytest.approx(before.carried_weight)


def test_what_comes_out_as_told_gains_weight_and_what_comes_out_otherwise_loses_it() -> None:
    told = carried(({"compile": 0.3}, -0.5, NOISE), ({"compile": 0.3}, -0.52, NOISE))
    before = Averaged.learn([], told)
    alike, otherwise = (before.after({"compile": 0.3}, effect, NOISE) for effect in (-0.5, 0.5))
    assert otherwise.carried_weight < 0.2 < before.carried_weight < alike.carried_weight


def test_of_two_campaigns_the_one_that_lies_loses_and_the_other_keeps_its_weight() -> None:
    told = {
        **carried(({"compile": 0.3}, -0.4, NOISE), scope="C-1"),
        **carried(({"compile": 0.3}, 0.4, NOISE), scope="C-2"),
    }
    after = Averaged.learn([({"compile": 0.3}, -0.4, NOISE)] * 2, told)
    assert after.weight_of("C-2") < after.weight_of("C-1")
    mean, _ = after.predict([{"compile": 0.3}])
    assert float(mean[0]) == pytest.approx(-0.4, abs=0.1)


@pytest.mark.parametrize(("farthest", "claim"), [(math.inf, -0.4), (FARTHEST, -0.4), (FARTHEST, -1.05)])
def test_the_rows_that_were_told_move_the_mean_by_what_is_heard_of_them(
    farthest: float, claim: float
) -> None:
    told = carried(({"compile": 0.3}, claim, NOISE), ({"kernel": 0.3}, 0.2, NOISE))
    found = Averaged.learn([], told, farthest)
    moved = found.moved_by({"compile": 0.3}, [("C-1", row) for row in told["C-1"]])
    mean, _ = found.predict([{"compile": 0.3}])
    assert math.fsum(moved) == pytest.approx(float(mean[0]))
    assert moved[0] < 0
    assert moved[1] == pytest.approx(0)
