"""A step has no more time outside kernels than a served token leaves for it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.surrogate.served_step import as_served
from experiments.engines.port import PartTime

KERNELS = (PartTime("gate_up_proj", "gemm", 2.0, 1000, launches=32), PartTime("lm_head", "lm_head", 0.7, 500))


def step(outside_ms: float) -> tuple[PartTime, ...]:
    return (*KERNELS, PartTime("outside", "outside", outside_ms, 0))


@pytest.mark.parametrize(
    ("token_ms", "left_ms"),
    [(2.85, 0.15), (2.7, 0.0), (2.5, 0.0), (3.6, 0.9), (9.0, 0.9)],
)
def test_what_a_token_leaves_beside_kernels_is_all_that_lies_outside_them(
    token_ms: float, left_ms: float
) -> None:
    *kernels, outside = as_served(step(0.9), token_ms)
    assert tuple(kernels) == KERNELS
    assert outside.time_ms == pytest.approx(left_ms)
    assert outside.kind == "outside"


@given(st.floats(0, 100), st.floats(0, 100))
def test_nothing_is_added_and_a_token_is_not_undercut(outside_ms: float, token_ms: float) -> None:
    served_ms = math.fsum(part.time_ms for part in as_served(step(outside_ms), token_ms))
    assert served_ms <= 2.7 + outside_ms + 1e-9
    assert served_ms >= min(token_ms, 2.7 + outside_ms) - 1e-9


def test_a_profile_that_is_not_of_kernels_stays_as_it_is() -> None:
    assert as_served(KERNELS, 1.0) == KERNELS
    assert as_served((), 1.0) == ()
