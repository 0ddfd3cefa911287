"""What is added up of all settings but one, for each of them, is what adding them up would give."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.surrogate.feasibility import sums_of_others

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
