"""The t-mixture against its definition: integrals, root searches and simulated series."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.integrate import quad, simpson
from scipy.optimize import brentq, minimize_scalar
from scipy.special import stdtr, stdtrit
from scipy.stats import chi2, norm
from scipy.stats import t as student

from agent.judge.t_mixture import PRIOR_SPREAD, log_chance_below, log_e_below, log_e_value, reach

SQUARES = st.floats(1e-6, 1e3)
DISTANCES = st.floats(-30, 30)
COUNTS = st.integers(1, 30)
FREEDOMS = st.integers(0, 20)
ALPHA = 0.05


@pytest.mark.parametrize(
    ("effects", "earlier", "freedom"),
    [((0.8,), 3.0, 2), ((0.8, 1.4, -0.2), 6.0, 5), ((-0.5, -1.9), 1.0, 3), ((2.0, 2.5, 1.5, 2.2), 0.5, 1)],
)
def test_the_closed_forms_are_the_integrals_that_define_them(
    effects: tuple[float, ...], earlier: float, freedom: int
) -> None:
    """Likelihoods summed over grids of ln σ, and of shifts under the alternative, with that of W₀."""
    x = np.array(effects)
    log_sd = np.linspace(-6, 6, 801)
    sd = np.exp(log_sd)

    def over_sd(shift: float) -> float:
        each = norm.logpdf(x[:, None], shift * sd, sd).sum(axis=0) + chi2.logpdf(earlier / sd**2, freedom)
        return float(np.trapezoid(np.exp(each - 2 * log_sd), log_sd))

    def alternative(low: float, high: float) -> float:
        shifts = np.linspace(low, high, 801)
        values = [over_sd(shift) * float(norm.pdf(shift, 0, PRIOR_SPREAD)) for shift in shifts]
        return float(simpson(values, x=shifts))

    null = over_sd(0.0)
    squares = earlier + float(np.sum((x - x.mean()) ** 2))
    state = (float(x.mean()), len(x), squares, freedom)
    below, above = alternative(-24, 0), alternative(0, 24)
    assert log_e_value(*state) == pytest.approx(math.log((below + above) / null), abs=1e-4)
    assert log_e_below(*state) == pytest.approx(math.log(2 * below / null), abs=1e-4)


@pytest.mark.parametrize(
    ("freedom", "score"), [(3, -1e3), (200, -100.0), (1000, -20.0), (1000, -80.0), (100_000, -60.0)]
)
def test_a_chance_too_small_for_a_double_has_its_logarithm_all_the_same(freedom: int, score: float) -> None:
    """Against the integral of the density over its value at the score."""
    at = float(student.logpdf(score, freedom))
    scale = (freedom + score**2) / ((freedom + 1) * -score)  # over which the density falls to a third or so
    tail, _ = quad(lambda u: math.exp(student.logpdf(score - u * scale, freedom) - at), 0, np.inf)
    assert log_chance_below(freedom, score) == pytest.approx(at + math.log(tail * scale), rel=1e-7)


@pytest.mark.parametrize("distance", [-0.3, 0.0, 0.03, 2.0])
@pytest.mark.parametrize("count", [300, 1000, 100_000])
def test_any_number_of_pairs_has_an_e_value(count: int, distance: float) -> None:
    found = log_e_below(distance, count, (count - 1) * 0.01**2, 0)
    assert math.isfinite(found)
    assert (found > 0) is (distance < 0)
    assert found >= log_e_below(distance + 0.01, count, (count - 1) * 0.01**2, 0)


@settings(deadline=None, max_examples=50)
@given(DISTANCES, COUNTS, SQUARES, FREEDOMS, st.booleans())
def test_the_next_observation_leaves_the_e_value_as_it_is_in_expectation(
    distance: float, count: int, squares: float, freedom: int, one_side: bool
) -> None:
    """A martingale: under μ = m the next x is, given what was seen up to scale, Student's t about m."""
    log_e = log_e_below if one_side else log_e_value
    seen = freedom + count
    scale = math.sqrt((squares + count * distance**2) / seen)

    def after(u: float) -> float:
        # x − m = scale · t, by the probability transform, so that the integral is over (0, 1)
        x = scale * float(stdtrit(seen, u))
        mean = distance + (x - distance) / (count + 1)
        more = squares + count / (count + 1) * (x - distance) ** 2
        return math.exp(log_e(mean, count + 1, more, freedom) - log_e(distance, count, squares, freedom))

    found = quad(after, 0, 1, limit=200, epsrel=1e-6)[0]
    assert found == pytest.approx(1, abs=2e-3)


@settings(deadline=None)
@given(COUNTS, SQUARES, FREEDOMS, st.floats(1e-6, 0.4))
def test_the_half_width_is_where_the_e_value_reaches_one_over_alpha(
    count: int, squares: float, freedom: int, alpha: float
) -> None:
    found = reach(count, squares, freedom, alpha)
    farthest = 1e9 * math.sqrt(squares)

    def excess(distance: float) -> float:
        return log_e_value(distance, count, squares, freedom) + math.log(alpha)

    if excess(farthest) <= 0:
        assert found > 1e-3 * farthest
        return
    assume(found < farthest)
    assert found == pytest.approx(brentq(excess, 0, farthest, xtol=1e-300, rtol=1e-12), rel=1e-6)


@settings(deadline=None)
@given(DISTANCES, st.floats(0.001, 10), COUNTS, SQUARES, FREEDOMS)
def test_the_evidence_of_one_side_falls_as_the_mean_rises_and_is_at_most_twice_that_of_both(
    distance: float, more: float, count: int, squares: float, freedom: int
) -> None:
    low = log_e_below(distance, count, squares, freedom)
    assert log_e_below(distance + more, count, squares, freedom) <= low + 1e-9
    assert low <= log_e_value(distance, count, squares, freedom) + math.log(2) + 1e-12


@settings(deadline=None)
@given(DISTANCES, COUNTS, SQUARES, FREEDOMS, st.floats(1.001, 100))
def test_more_spread_is_less_evidence_and_a_wider_interval(
    distance: float, count: int, squares: float, freedom: int, factor: float
) -> None:
    here = log_e_value(distance, count, squares, freedom)
    assert log_e_value(distance, count, factor * squares, freedom) <= here + 1e-12
    assert reach(count, factor * squares, freedom, ALPHA) >= reach(count, squares, freedom, ALPHA)


def test_equal_observations_exclude_everything_else_once_there_are_enough() -> None:
    assert reach(1, 0.0, 0, ALPHA) == reach(2, 0.0, 0, ALPHA) == math.inf
    assert reach(5, 0.0, 0, ALPHA) == 0
    assert log_e_value(0.0, 5, 0.0, 0) < 0 < -math.log(ALPHA) < log_e_value(1e-9, 5, 0.0, 0)
    assert log_e_below(0.0, 5, 0.0, 0) < 0


def test_one_observation_without_earlier_data_says_nothing() -> None:
    for distance in (-50.0, 0.1, 3.0):
        assert log_e_value(distance, 1, 0.0, 0) == pytest.approx(0)


def test_the_chosen_spread_is_nearly_the_best_from_two_to_eighteen_pairs() -> None:
    def loss(count: int, freedom: int, alpha: float) -> float:
        squares = freedom + count - 1.0
        best = minimize_scalar(
            lambda log_g: reach(count, squares, freedom, alpha, math.exp(log_g)), (-2, 1), tol=1e-9
        ).fun
        return reach(count, squares, freedom, alpha) / float(best)

    assert max(loss(count, freedom, 0.05) for count in range(2, 7) for freedom in range(2, 11)) < 1.075
    assert max(loss(count, 10, 0.0005) for count in range(2, 7)) < 1.035
    assert max(loss(count, freedom, 0.05) for count in range(7, 19) for freedom in range(2, 11)) < 1.115
    assert max(loss(count, 10, 0.0005) for count in range(7, 19)) < 1.035


def series(
    freedom: int, looks: int, repeats: int, seed: int = 1
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Running means and sums of squares (σ = 1, μ = 0) of many series, one a row, W₀ drawn with it."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(repeats, looks))
    earlier = rng.chisquare(freedom, repeats) if freedom else np.zeros(repeats)
    counts = np.arange(1, looks + 1)
    means = np.cumsum(x, axis=1) / counts
    own = np.cumsum(x**2, axis=1) - counts * means**2
    return means, np.maximum(own, 0) + earlier[:, None]


def e_values(freedom: int, looks: int, repeats: int, seed: int = 1, mean: float = 0.0) -> NDArray[np.float64]:
    """E(0) at every look where the truth is `mean` standard deviations: rows are series."""
    means, squares = series(freedom, looks, repeats, seed)
    counts = np.arange(1, looks + 1)
    growth = 1 + counts * PRIOR_SPREAD**2
    shift = counts * (means + mean) ** 2
    log_e = (freedom + counts) / 2 * np.log((squares + shift) / (squares + shift / growth))
    found: NDArray[np.float64] = np.exp(log_e - np.log(growth) / 2)
    return found


def test_the_simulated_e_values_are_those_of_the_judge() -> None:
    means, squares = series(3, 6, 50)
    found = e_values(3, 6, 50)
    for row in range(50):
        for n in range(6):
            mine = math.exp(log_e_value(float(means[row, n]), n + 1, float(squares[row, n]), 3))
            assert found[row, n] == pytest.approx(mine, rel=1e-6)


REPEATS = 200_000

Stopping = Callable[[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]], NDArray[np.bool_]]
"""From means in σ, variances in σ² and e-values at each look to where one would stop."""

BY_RATIOS: dict[str, Stopping] = {
    "after one": lambda means, variances, e: np.ones_like(e, dtype=bool),
    "after six": lambda means, variances, e: np.zeros_like(e, dtype=bool),
    "at 20 or more": lambda means, variances, e: e >= 20,
    "at 20 or more, or when it looks hopeless": lambda means, variances, e: (e >= 20) | (e < 0.3),
    "at a mean beyond two standard deviations": lambda means, variances, e: means**2 > 4 * variances,
}
BY_SIZES: dict[str, Stopping] = {
    "at a mean below −σ": lambda means, variances, e: means < -1,
    "at a mean beyond σ": lambda means, variances, e: np.abs(means) > 1,
    "at a variance below 0.6 σ²": lambda means, variances, e: (variances < 0.6) & (e > 1),
    "at 20 or more, or a mean within 0.3 σ": lambda means, variances, e: (e >= 20) | (np.abs(means) < 0.3),
}


@dataclass(frozen=True)
class Drawn:
    """Series drawn with a shift, look by look: what a stop goes by, and logs of E and of weights."""

    means: NDArray[np.float64]
    variances: NDArray[np.float64]
    log_e: NDArray[np.float64]
    log_weight: NDArray[np.float64]


@lru_cache(maxsize=1)  # stops of one kind of series are asked after one another
def drawn(freedom: int, known: int, looks: int, one_side: bool) -> Drawn:
    """See `mean_at_stop`."""
    rng = np.random.default_rng(1)
    x = rng.normal(0, PRIOR_SPREAD, (REPEATS, 1)) + rng.normal(size=(REPEATS, looks))
    counts = np.arange(1, looks + 1)
    growth = 1 + counts * PRIOR_SPREAD**2
    means = np.cumsum(x, axis=1) / counts
    own = np.maximum(np.cumsum(x**2, axis=1) - counts * means**2, 0)
    squares = own + known / freedom * rng.chisquare(freedom, (REPEATS, 1))
    shift = counts * means**2
    below = squares + shift / growth
    log_e = (known + counts) / 2 * np.log((squares + shift) / below) - np.log(growth) / 2
    if one_side:
        centre = counts * PRIOR_SPREAD**2 * means / growth
        scale = PRIOR_SPREAD * np.sqrt(below / (growth * (known + counts)))
        log_e = log_e + np.log(2 * np.maximum(stdtr(known + counts, -centre / scale), 1e-300))
    log_weight = np.log(growth) / 2 - counts * PRIOR_SPREAD**2 * shift / (2 * growth)
    return Drawn(means, squares / (known + counts - 1), log_e, log_weight)


def mean_at_stop(
    freedom: int, stopping: Stopping, looks: int = 6, *, one_side: bool = False, counted: int | None = None
) -> tuple[float, float]:
    """The mean of E(μ), or of E₋(μ), where one stops, and its standard error.

    `counted` degrees of freedom are the judge's count of earlier data that have `freedom` of them.

    Its tail is too heavy for plain averages, so the series are drawn with a shift and
    weighted: the density of N(0, 1) over that of N(δ, 1), δ ~ N(0, g²), after n observations is
    √k · exp(−n²·g²·x̄²/2k).
    """
    found = drawn(freedom, freedom if counted is None else counted, looks, one_side)
    stops = stopping(found.means, found.variances, np.exp(found.log_e))
    stops[:, -1] = True
    at = stops.argmax(axis=1)[:, None]
    weighted = np.exp(np.take_along_axis(found.log_e + found.log_weight, at, axis=1))
    return float(weighted.mean()), float(weighted.std()) / math.sqrt(REPEATS)


@pytest.mark.parametrize("name", BY_RATIOS)
@pytest.mark.parametrize("one_side", [False, True])
@pytest.mark.parametrize("freedom", [2, 10])
def test_the_e_value_of_the_truth_has_a_mean_of_one_at_every_stop_that_goes_by_ratios(
    name: str, freedom: int, one_side: bool
) -> None:
    mean, error = mean_at_stop(freedom, BY_RATIOS[name], one_side=one_side)
    print(f"{freedom:2} earlier degrees of freedom, {name}: mean {mean:.3f} ± {error:.3f}")
    assert mean == pytest.approx(1, abs=4 * error + 0.01)


@pytest.mark.parametrize("name", BY_SIZES)
@pytest.mark.parametrize("one_side", [False, True])
@pytest.mark.parametrize("freedom", [2, 10])
def test_a_stop_that_knows_sizes_in_sigma_raises_the_mean_by_little(
    name: str, freedom: int, one_side: bool
) -> None:
    """Not proven, and not quite so: by a tenth where one stops at a mean beyond σ."""
    mean, error = mean_at_stop(freedom, BY_SIZES[name], one_side=one_side)
    print(f"{freedom:2} earlier degrees of freedom, {name}: mean {mean:.3f} ± {error:.3f}")
    assert mean <= 1.1 + 4 * error


@pytest.mark.parametrize("name", BY_RATIOS | BY_SIZES)
@pytest.mark.parametrize("one_side", [False, True])
def test_a_profile_that_is_known_better_than_it_is_counted_leaves_the_mean_below_one(
    name: str, one_side: bool
) -> None:
    """Proven for E at a fixed n (Jensen); measured for E₋ and where one stops. 20 is the least above the cap
    that was tried; with 60 and 1,000 the means are lower still."""
    mean, error = mean_at_stop(20, (BY_RATIOS | BY_SIZES)[name], one_side=one_side, counted=10)
    print(f"20 counted as 10, {name}: mean {mean:.3f} ± {error:.3f}")
    assert mean + 4 * error < 0.8


@pytest.mark.parametrize("freedom", [0, 1, 2, 5, 10])
def test_the_truth_is_inside_at_all_of_sixty_looks_together(freedom: int) -> None:
    """The worst look is one after the last at which an adversary could stop."""
    repeats = 40_000
    missed = float(np.mean(e_values(freedom, 60, repeats).max(axis=1) >= 1 / ALPHA))
    print(f"{freedom:2} earlier degrees of freedom: missed at some look by {missed:.2%}")
    assert missed <= ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / repeats)
