"""What is added up of all settings but one, for each of them, is what adding them up would give."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.surrogate.feasibility import sums_of_others

CHANCES = st.one_of(st.floats(0.0, 1.0), st.floats(0.0, 1e-12), st.floats(1 - 1e-12, 1.0))


def added_up(values: Sequence[float]) -> list[float]:
    return [math.fsum([*values[:place], *values[place + 1 :]]) for place in range(len(values))]


@given(st.lists(CHANCES, max_size=60))
def test_the_sum_of_the_others_is_exact_to_the_last_bit(values: list[float]) -> None:
    assert sums_of_others(values) == added_up(values)


@pytest.mark.parametrize("values", [[], [0.3], [1.0, 1e-17, 1e-300, 1.0], [0.1] * 10, [1e16, 1.0, -1e16]])
def test_what_rounding_would_lose_is_in_the_sum_of_the_others(values: list[float]) -> None:
    assert sums_of_others(values) == added_up(values)
