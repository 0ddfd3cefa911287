"""Sums over all settings but one are what adding up gives, and settings of every kind are learnt together."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.surrogate.feasibility import FeasibilityBelief, Tried, sums_of_others
from agent.surrogate.levers import LeverView
from experiments.space.configuration import Configuration, KnobValue

CHANCES = st.one_of(st.floats(0.0, 1.0), st.floats(0.0, 1e-12), st.floats(1 - 1e-12, 1.0))

ROUNDED = 1e-13
"""Far below what moves a belief."""


def added_up(values: Sequence[float]) -> list[float]:
    return [math.fsum([*values[:place], *values[place + 1 :]]) for place in range(len(values))]


@given(st.lists(CHANCES, max_size=60))
def test_the_sum_of_the_others_is_what_adding_them_up_gives(values: list[float]) -> None:
    assert sums_of_others(values) == pytest.approx(added_up(values), abs=ROUNDED)


@given(st.lists(CHANCES, min_size=1, max_size=60))
def test_no_sum_of_chances_is_negative(values: list[float]) -> None:
    assert min(sums_of_others(values)) >= 0


def test_settings_of_a_knob_that_are_numbers_words_and_none_are_learnt_together_in_whatever_order() -> None:
    view = LeverView({"a.size": "a", "b.on": "b"}, Configuration.of({"a.size": 0, "b.on": False}))
    settings: list[dict[str, KnobValue]] = [
        {},
        *({"a.size": size} for size in (9, 10, 2.5, "auto", "9", True)),
    ]
    tried = [
        Tried(Configuration.of({**setting, "b.on": on}), ran=number % 3 > 0)
        for on in (False, True)
        for number, setting in enumerate(settings)
    ]
    asked = [each.configuration for each in tried]
    learnt, again = (FeasibilityBelief.learn(view, [], swept=each) for each in (tried, tried[::-1]))
    assert again.probability(asked) == pytest.approx(learnt.probability(asked), rel=1e-4)
    assert list(learnt.probability(asked)) != [learnt.probability(asked[:1])[0]] * len(asked)
