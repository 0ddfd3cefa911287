"""A step has no more time outside kernels than a served token leaves for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.engines.served_step import as_served

MS = st.floats(0.001, 100)


@pytest.mark.parametrize(
    ("token_ms", "left_ms"),
    [(2.85, 0.15), (2.7, 0.0), (3.6, 0.9), (9.0, 0.9), (2.6999, 0.0), (2.7001, 0.0001)],
)
def test_what_a_token_leaves_beside_kernels_is_all_that_lies_outside_them(
    token_ms: float, left_ms: float
) -> None:
    factor, outside_ms = as_served(2.7, 0.9, token_ms)
    assert factor == pytest.approx(min(1.0, token_ms / 2.7))
    assert outside_ms == pytest.approx(left_ms)


@given(MS, st.floats(0, 100), MS)
def test_a_step_becomes_the_token_where_that_is_shorter_and_stays_where_it_is_not(
    kernels_ms: float, outside_ms: float, token_ms: float
) -> None:
    factor, left_ms = as_served(kernels_ms, outside_ms, token_ms)
    assert factor * kernels_ms + left_ms == pytest.approx(min(token_ms, kernels_ms + outside_ms))
    assert factor <= 1
    assert 0 <= left_ms <= outside_ms
