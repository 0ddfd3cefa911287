from math import isclose, sqrt
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.findings.pooling import Estimate, pool

effects = st.floats(-1, 1)
half_widths = st.floats(0.001, 0.5)
estimates = st.builds(lambda e, h: Estimate(e, e - h, e + h), effects, half_widths)


def test_one_estimate_comes_back_as_it_is() -> None:
    only = Estimate(-0.1, -0.15, -0.08)
    assert pool([only]) == only


def test_nothing_cannot_be_pooled() -> None:
    with pytest.raises(ValueError, match="nothing to pool"):
        pool([])


def test_two_equal_estimates_halve_the_variance() -> None:
    pooled = pool([Estimate(-0.1, -0.12, -0.08)] * 2)
    assert isclose(pooled.effect_log, -0.1)
    assert isclose(pooled.half_width_log, 0.02 / sqrt(2))


def test_the_sharper_estimate_weighs_more() -> None:
    pooled = pool([Estimate(0.0, -0.1, 0.1), Estimate(-0.1, -0.11, -0.09)])
    assert -0.1 < pooled.effect_log < -0.09


def test_estimates_that_scatter_widen_the_interval() -> None:
    apart = pool([Estimate(-0.5, -0.51, -0.49), Estimate(0.5, 0.49, 0.51)])
    assert apart.half_width_log > 0.5  # it reaches what either of them said


@given(st.lists(estimates, min_size=1, max_size=8))
def test_the_pooled_effect_lies_among_the_estimates_and_in_its_interval(found: list[Estimate]) -> None:
    pooled = pool(found)
    tolerance = 1e-9
    assert min(e.effect_log for e in found) - tolerance <= pooled.effect_log
    assert pooled.effect_log <= max(e.effect_log for e in found) + tolerance
    assert pooled.low_log <= pooled.effect_log <= pooled.high_log


@given(st.lists(estimates, min_size=2, max_size=6), st.randoms())
def test_pooling_does_not_depend_on_the_order(found: list[Estimate], random: Random) -> None:
    shuffled = list(found)
    random.shuffle(shuffled)
    one, other = pool(found), pool(shuffled)
    assert isclose(one.effect_log, other.effect_log, abs_tol=1e-9)
    assert isclose(one.high_log, other.high_log, rel_tol=1e-6, abs_tol=1e-9)
