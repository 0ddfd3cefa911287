"""The interval of a share is that of scipy's exact test."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from knowledge.exact_interval import exact_bounds


@given(st.integers(0, 40), st.integers(1, 40))
@settings(max_examples=30, deadline=None)
def test_the_interval_of_a_share_is_the_exact_one(count: int, more: int) -> None:
    known = binomtest(count, count + more).proportion_ci(0.95, method="exact")
    assert exact_bounds(count, count + more) == pytest.approx((known.low, known.high), abs=1e-9)


def test_of_nothing_any_share_may_be() -> None:
    assert exact_bounds(0, 0) == (0.0, 1.0)
