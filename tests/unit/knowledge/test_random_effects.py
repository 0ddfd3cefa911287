"""Laws of pooling over campaigns."""

from math import isclose
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from knowledge.findings.pooling import Estimate
from knowledge.findings.random_effects import TAU_SCALE_LOG, pool_campaigns

few = settings(max_examples=25, deadline=None)
"""Each example integrates twice, some 10 ms."""

half_widths = st.floats(0.001, 0.3)
estimates = st.builds(lambda e, h: Estimate(e, e - h, e + h), st.floats(-1, 1), half_widths)
several = st.lists(estimates, min_size=2, max_size=6)


def width(found: Estimate) -> float:
    return found.high_log - found.low_log


def alike(*effects: float, half_width: float = 0.02) -> list[Estimate]:
    return [Estimate(each, each - half_width, each + half_width) for each in effects]


@given(estimates)
def test_one_campaign_gives_its_own_interval(only: Estimate) -> None:
    pooled = pool_campaigns([only])
    assert pooled.estimate == only
    assert pooled.tau_log is pooled.i_squared is pooled.predicted is None


def test_nothing_cannot_be_pooled() -> None:
    with pytest.raises(ValueError, match="nothing to pool"):
        pool_campaigns([])


@few
@given(several, st.randoms(use_true_random=False))
def test_the_order_of_campaigns_does_not_matter(found: list[Estimate], random: Random) -> None:
    shuffled = random.sample(found, len(found))
    assert pool_campaigns(shuffled) == pool_campaigns(found)


@few
@given(several)
def test_the_mean_lies_among_the_campaigns_and_in_its_interval_and_that_within_the_predicted(
    found: list[Estimate],
) -> None:
    pooled = pool_campaigns(found)
    assert pooled.predicted is not None
    middle = pooled.estimate.effect_log
    assert min(e.effect_log for e in found) - 1e-9 <= middle <= max(e.effect_log for e in found) + 1e-9
    assert pooled.predicted[0] <= pooled.estimate.low_log <= middle <= pooled.estimate.high_log
    assert pooled.estimate.high_log <= pooled.predicted[1]


@few
@given(st.lists(st.floats(-0.3, 0.3), min_size=2, max_size=6), half_widths, st.floats(1.05, 4))
@example([0.0, 0.25], 0.25, 1.125)
def test_more_variance_between_campaigns_gives_a_wider_interval(
    effects: list[float], half_width: float, factor: float
) -> None:
    middle = sum(effects) / len(effects)
    near = pool_campaigns(alike(*effects, half_width=half_width))
    apart = pool_campaigns(
        alike(*(middle + factor * (each - middle) for each in effects), half_width=half_width)
    )
    assert width(apart.estimate) >= width(near.estimate) * (1 - 0.01)  # 1 %: what the grid over τ gives away
    assert near.tau_log is not None
    assert apart.tau_log is not None
    assert apart.tau_log >= near.tau_log * (1 - 0.01)


@few
@given(several, st.floats(-0.5, 0.5))
def test_moving_all_campaigns_moves_the_pooled_effect_by_as_much(found: list[Estimate], by: float) -> None:
    moved = [Estimate(e.effect_log + by, e.low_log + by, e.high_log + by) for e in found]
    one, other = pool_campaigns(found), pool_campaigns(moved)
    assert isclose(one.estimate.effect_log + by, other.estimate.effect_log, abs_tol=1e-6)
    assert isclose(one.estimate.high_log + by, other.estimate.high_log, abs_tol=1e-6)


def test_campaigns_far_apart_overrule_the_prior_and_the_interval_reaches_both() -> None:
    pooled = pool_campaigns(alike(-0.5, 0.5, half_width=0.01))
    assert pooled.estimate.low_log < -0.5
    assert pooled.estimate.high_log > 0.5
    assert pooled.i_squared is not None
    assert pooled.i_squared > 0.99


def test_campaigns_that_agree_scatter_by_nothing_that_their_intervals_leave_open() -> None:
    pooled = pool_campaigns(alike(-0.1, -0.1, -0.1))
    assert pooled.i_squared == 0
    assert pooled.tau_log is not None
    assert pooled.tau_log < TAU_SCALE_LOG  # below the prior's median


def test_more_campaigns_that_agree_narrow_the_interval() -> None:
    widths = [width(pool_campaigns(alike(*[-0.1] * count)).estimate) for count in (2, 3, 5, 10)]
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < width(alike(-0.1)[0])


def test_the_sharper_campaign_weighs_more() -> None:
    pooled = pool_campaigns([Estimate(0.0, -0.2, 0.2), Estimate(-0.1, -0.11, -0.09)])
    assert -0.1 < pooled.estimate.effect_log < -0.07


def test_the_study_of_two_is_wider_than_either_and_narrower_than_hartung_and_knapp_would_have_it() -> None:
    """Two campaigns 1 % apart, ±2 % each: t(1) · |difference| / 2 = 12.706 · 0.01 / 2 = 0.0635."""
    half_width = width(pool_campaigns(alike(-0.105, -0.095)).estimate) / 2
    assert 0.02 < half_width < 0.0635


def test_the_interval_of_three_is_never_narrower_than_hartung_and_knapp_s() -> None:
    """Of −0.4, −0.2 and 0 with equal errors: t(2) · sd / √3 = 4.303 · 0.2 / √3 = 0.4969."""
    half_width = width(pool_campaigns(alike(-0.4, -0.2, 0.0)).estimate) / 2
    assert half_width >= 0.4968


@pytest.mark.parametrize(("count", "spread_log", "least"), [(2, 0.03, 0.95), (3, 0.1, 0.94)])
def test_the_interval_holds_the_true_mean_about_as_often_as_it_says(
    count: int, spread_log: float, least: float
) -> None:
    """Over 100 draws, so that chance takes or gives 5 points; the whole table is in docs/findings.md."""
    random = Random(f"{count} {spread_log}")
    held = 0
    for _ in range(100):
        found = pool_campaigns(alike(*(random.gauss(-0.2, spread_log) for _ in range(count)))).estimate
        held += found.low_log <= -0.2 <= found.high_log
    assert held / 100 >= least - 0.05
