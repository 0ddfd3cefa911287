"""The interval in which the launch is the unit."""

from __future__ import annotations

import math

import pytest
from scipy.stats import t as student

from agent.judge.interval import (
    NOISE_DOF_CAP,
    interval,
    pair_noise,
    planned_looks,
    side_alpha,
)
from agent.judge.pairs import PairEffect
from experiments.measurement.evidence import Metric, NoiseProfile
from experiments.measurement.plan import Prediction, StoppingPlan

PLAN = StoppingPlan(prediction=Prediction(log_ratio_mean=0, log_ratio_sd=1))


def pairs(*effects: float, within: float = 0.0) -> list[PairEffect]:
    return [PairEffect(k, False, effect, within, 4, 16) for k, effect in enumerate(effects)]


def profile(sd: float | None, freedom: int) -> NoiseProfile:
    return NoiseProfile("target", Metric.TPOT_MS, freedom + 1, freedom, sd)


def test_nothing_is_known_of_the_noise_from_one_pair_without_a_profile() -> None:
    assert pair_noise(pairs(-0.1), profile(None, 0)) is None


def test_one_pair_takes_its_noise_from_the_profile_with_the_variance_of_two_launches() -> None:
    found = pair_noise(pairs(-0.1), profile(0.01, 3))
    assert found is not None
    assert found.sd_log == pytest.approx(0.01 * math.sqrt(2))
    assert (found.degrees_of_freedom, found.source) == (3, "profile")


def test_pairs_and_profile_are_pooled_by_their_degrees_of_freedom() -> None:
    found = pair_noise(pairs(-0.11, -0.09), profile(0.01, 3))
    assert found is not None
    assert found.sd_log**2 == pytest.approx((3 * 2 * 0.01**2 + 2 * 0.01**2) / 4)
    assert (found.degrees_of_freedom, found.source) == (4, "pooled")


def test_the_profile_counts_only_up_to_its_cap() -> None:
    found = pair_noise(pairs(-0.11, -0.09), profile(0.01, 500))
    assert found is not None
    assert found.degrees_of_freedom == NOISE_DOF_CAP + 1


def test_a_spread_that_the_profile_does_not_explain_sets_the_profile_aside() -> None:
    found = pair_noise(pairs(-0.3, 0.0, 0.3), profile(0.01, 20))
    assert found is not None
    assert (found.degrees_of_freedom, found.source) == (2, "pairs")
    assert found.sd_log == pytest.approx(0.3)


def test_the_interval_is_students_t_over_the_root_of_the_pairs() -> None:
    effects = pairs(-0.11, -0.09, -0.10)
    noise = pair_noise(effects, profile(None, 0))
    assert noise is not None
    found = interval(effects, noise, 0.025)
    low, high = student.interval(0.95, 2, loc=-0.1, scale=0.01 / math.sqrt(3))
    assert (found.low_log, found.high_log) == (pytest.approx(low), pytest.approx(high))


def test_the_standard_error_is_never_below_what_the_blocks_within_the_launches_tell() -> None:
    effects = pairs(-0.1, -0.1, -0.1, within=0.05)
    noise = pair_noise(effects, profile(0.0001, 10))
    assert noise is not None
    assert interval(effects, noise, 0.025).se_log == pytest.approx(0.05 / math.sqrt(3))


def test_alpha_is_split_over_both_sides_and_all_planned_looks() -> None:
    assert planned_looks(PLAN) == PLAN.full_pairs + 1
    assert side_alpha(PLAN) * 2 * planned_looks(PLAN) == pytest.approx(PLAN.alpha)
