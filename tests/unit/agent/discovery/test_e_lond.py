"""e-LOND: what its levels may add up to, and that it controls the false discovery rate."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import zeta

from agent.discovery.e_lond import discoveries_of, level
from agent.discovery.gamma import EXPONENT, TOTAL, gamma

ALPHA = 0.05
STREAMS = 4000


def test_the_shares_sum_to_at_most_one_and_nearly_use_it_up() -> None:
    tests = 100_000
    spent = math.fsum(gamma(t) for t in range(1, tests + 1))
    rest = tests ** (1 - EXPONENT) / (EXPONENT - 1) / TOTAL  # the integral bounds the tail
    assert spent < 1 <= spent + rest


def test_the_first_share_is_the_published_one() -> None:
    assert gamma(1) == pytest.approx(0.4374901658, rel=1e-9)
    assert float(zeta(EXPONENT)) == pytest.approx(TOTAL, rel=1e-12)


@given(st.integers(1, 10**6))
def test_shares_are_positive_and_fall(test: int) -> None:
    assert 0 < gamma(test + 1) < gamma(test)


@given(st.floats(1e-6, 0.5), st.integers(0, 5000), st.data())
def test_a_level_is_at_most_alpha_and_grows_with_discoveries(
    alpha: float, before: int, data: st.DataObject
) -> None:
    known = data.draw(st.integers(0, before))
    assert 0 < level(alpha, before, known) <= alpha
    if known:
        assert level(alpha, before, known - 1) <= level(alpha, before, known)


def test_without_a_discovery_the_levels_never_spend_more_than_alpha() -> None:
    assert math.fsum(level(ALPHA, t, 0) for t in range(10_000)) < ALPHA


@pytest.mark.parametrize("alpha", [0.0, 1.0, -1.0, math.nan])
def test_an_alpha_that_is_no_level_is_refused(alpha: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        level(alpha, 0, 0)


@pytest.mark.parametrize(("before", "known"), [(-1, 0), (2, 3), (2, -1)])
def test_counts_that_can_not_be_are_refused(before: int, known: int) -> None:
    with pytest.raises(ValueError, match="can't be"):
        level(ALPHA, before, known)


def test_tests_are_counted_from_one() -> None:
    with pytest.raises(ValueError, match="from 1"):
        gamma(0)


def e_value_of(z: np.ndarray, shift: float) -> np.ndarray:
    """The likelihood ratio of a normal mean of `shift` against 0: of mean 1 under the null."""
    return np.exp(shift * z - shift**2 / 2)


@pytest.mark.parametrize("dependence", ["none", "one shared noise", "opposed in pairs", "copies"])
@pytest.mark.parametrize("true_share", [0.0, pytest.param(0.3, marks=pytest.mark.bench_only), 0.8])
def test_the_false_discovery_rate_is_held_whatever_the_dependence(dependence: str, true_share: float) -> None:
    rng = np.random.default_rng(7)
    tests, shift = 20, 3.0
    proportions = []
    for _ in range(STREAMS):
        own = rng.normal(size=tests)
        noise = {
            "none": own,
            "one shared noise": 0.9 * rng.normal() + math.sqrt(1 - 0.81) * own,
            "opposed in pairs": np.repeat(own[::2], 2) * np.tile([1, -1], tests // 2),
            "copies": np.full(tests, own[0]),
        }[dependence]
        real = rng.random(tests) < true_share
        found = np.array(discoveries_of(ALPHA, e_value_of(noise + shift * real, shift)))
        proportions.append((found & ~real).sum() / max(1, found.sum()))
    error = np.std(proportions) / math.sqrt(STREAMS)
    assert np.mean(proportions) <= ALPHA + 3 * error


def test_the_same_e_values_at_a_fixed_level_would_not_hold_it() -> None:
    """The control does something: 1/alpha for every test calls more nulls than alpha false in a stream."""
    rng = np.random.default_rng(7)
    streams = np.array(
        [(e_value_of(rng.normal(size=200), 1.5) >= 1 / ALPHA).any() for _ in range(STREAMS // 4)]
    )
    controlled = [
        any(discoveries_of(ALPHA, e_value_of(rng.normal(size=200), 1.5))) for _ in range(STREAMS // 4)
    ]
    assert streams.mean() > 2 * ALPHA
    assert np.mean(controlled) <= ALPHA + 3 * math.sqrt(ALPHA / (STREAMS // 4))


def test_real_effects_are_found_although_the_levels_fall() -> None:
    assert all(discoveries_of(ALPHA, [1e4] * 30))
    assert not any(discoveries_of(ALPHA, [1 / ALPHA] * 30))


def test_fewer_known_discoveries_only_make_a_level_stricter() -> None:
    assert level(ALPHA, 9, 1) < level(ALPHA, 9, 4)
