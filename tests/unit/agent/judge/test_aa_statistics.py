"""Estimates of an A/A series: against known values, their intervals against the truth."""

import math

import numpy as np
import pytest
from scipy import stats

from agent.judge import aa_statistics as statistics
from agent.judge.aa_components import components

RNG_SEED = 20
RUNS = 400
"""Simulations: a share of 95 % is then told to ±1.1 %."""

LEAST_COVERED, MOST_COVERED = 0.91, 0.985
"""Four standard errors below, three above the 95 % that an interval should hold."""


def covered(held: list[bool]) -> float:
    return sum(held) / len(held)


def test_the_exact_binomial_interval_is_that_of_the_tables() -> None:
    # Clopper and Pearson: 0 of 100 is at most 3.62 %, 5 of 50 lies in [3.33, 21.81] %
    none, some = statistics.share(0, 100), statistics.share(5, 50)
    assert (none.low, none.high) == (0.0, pytest.approx(0.036217, abs=1e-6))
    assert (some.low, some.high) == (pytest.approx(0.033275, abs=1e-5), pytest.approx(0.218135, abs=1e-5))
    assert statistics.share(7, 7).high == 1.0
    nothing = statistics.share(0, 0)
    assert (nothing.low, nothing.high) == (0.0, 1.0)


def test_a_mean_has_the_interval_of_student_s_t() -> None:
    found = statistics.mean([1.0, 2.0, 3.0, 6.0])
    assert found is not None
    low, high = stats.t.interval(0.95, 3, loc=3.0, scale=stats.sem([1.0, 2.0, 3.0, 6.0]))
    assert (found.value, found.low, found.high) == (3.0, pytest.approx(low), pytest.approx(high))
    alone = statistics.mean([1.0])
    assert alone is not None
    assert alone.low is None
    assert statistics.mean([]) is None


def test_the_interval_of_a_launch_s_spread_holds_it() -> None:
    rng = np.random.default_rng(RNG_SEED)
    held = []
    for _ in range(RUNS):
        found = statistics.launch_sd(list(rng.normal(0, 0.02 * math.sqrt(2), 10)))
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        held.append(found.low <= 0.02 <= found.high)
    assert LEAST_COVERED < covered(held) < MOST_COVERED


def test_the_ratio_of_two_spreads_holds_the_truth() -> None:
    rng = np.random.default_rng(RNG_SEED)
    held = []
    for _ in range(RUNS):
        found = statistics.spread_ratio(list(rng.normal(0, 0.03, 8)), list(rng.normal(0, 0.01, 12)))
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        held.append(found.low <= 3 <= found.high)
    assert LEAST_COVERED < covered(held) < MOST_COVERED
    assert statistics.spread_ratio([0.1], [0.0]) is None


def test_a_slope_is_that_of_least_squares() -> None:
    times, values = [0.0, 1.0, 2.0, 4.0], [1.0, 2.5, 2.0, 5.0]
    found, known = statistics.slope(times, values), stats.linregress(times, values)
    reach = stats.t.ppf(0.975, 2) * known.stderr
    assert found is not None
    assert found.value == pytest.approx(known.slope)
    assert (found.low, found.high) == (
        pytest.approx(known.slope - reach),
        pytest.approx(known.slope + reach),
    )
    assert statistics.slope([0.0, 1.0], [1.0, 2.0]) is None
    assert statistics.slope([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]) is None


def test_the_sign_test_is_the_binomial_one() -> None:
    values = [-1.0] * 8 + [1.0, 1.0, 0.0]
    assert statistics.sign_test(values) == pytest.approx(stats.binomtest(2, 10).pvalue)
    assert statistics.sign_test([]) == 1.0


@pytest.mark.parametrize("rho", [-0.4, 0.0, 0.6])
def test_the_correlation_of_neighbours_is_found_in_short_series(rho: float) -> None:
    rng = np.random.default_rng(RNG_SEED)
    held, middle = [], []
    for _ in range(RUNS // 4):
        groups = []
        for _ in range(20):
            series = [float(rng.normal())]
            for _ in range(7):
                series.append(rho * series[-1] + math.sqrt(1 - rho**2) * float(rng.normal()))
            groups.append([series])
        found = statistics.autocorrelation(groups)
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        held.append(found.low <= rho <= found.high)
        middle.append(found.value)
    assert abs(sum(middle) / len(middle) - rho) < 0.05
    assert covered(held) > 0.86  # 100 runs: four standard errors below 95 %


def test_nothing_that_varies_has_no_correlation() -> None:
    assert statistics.autocorrelation([[[1.0, 1.0, 1.0]]]) is None
    assert statistics.autocorrelation([]) is None


def test_correlated_samples_are_worth_less_and_never_more_than_they_are() -> None:
    assert statistics.effective_samples(8, 0.5) == pytest.approx(8 / 3)
    assert statistics.effective_samples(8, -0.5) == 8
    assert statistics.effective_samples(8, 1.0) == 1


def test_kurtosis_is_the_unbiased_one() -> None:
    values = [1.0, 2.0, 4.0, 8.0, 16.0, 3.0]
    found = statistics.excess_kurtosis(values)
    assert found is not None
    assert found.value == pytest.approx(float(stats.kurtosis(values, bias=False)))
    assert statistics.excess_kurtosis([1.0, 1.0, 1.0, 1.0]) is None


def test_normality_is_refused_for_what_is_far_from_it() -> None:
    rng = np.random.default_rng(RNG_SEED)
    normal = statistics.normality(list(rng.normal(size=60)))
    heavy = statistics.normality(list(rng.standard_cauchy(60)))
    assert normal is not None
    assert heavy is not None
    assert normal > 0.05 > heavy
    assert statistics.normality([1.0, 2.0]) is None


@pytest.mark.parametrize(("pairs", "blocks"), [(4, 2), (12, 4)])
def test_components_of_variance_are_found_with_intervals_that_hold_them(pairs: int, blocks: int) -> None:
    rng = np.random.default_rng(RNG_SEED)
    truth = (0.01**2, 0.005**2, 0.008**2)
    held: list[list[bool]] = [[], [], []]
    sums = [0.0, 0.0, 0.0]
    for _ in range(RUNS):
        drawn = rng.normal(0, 0.01, (pairs, 1, 1)) + rng.normal(0, 0.005, (pairs, blocks, 1))
        drawn = math.sqrt(2) * (drawn + rng.normal(0, 0.008, (pairs, blocks, 2)))
        found = components(drawn.tolist())
        assert found is not None
        for place, (each, known) in enumerate(
            zip((found.launches, found.blocks, found.requests), truth, strict=True)
        ):
            assert each.low is not None
            assert each.high is not None
            held[place].append(each.low <= known <= each.high)
            sums[place] += each.value / RUNS
        assert sum(found.shares) == pytest.approx(1)
    for each_held, mean, known in zip(held, sums, truth, strict=True):
        assert covered(each_held) > LEAST_COVERED
        assert mean == pytest.approx(known, rel=0.35)  # cut off at 0, so a little above


@pytest.mark.parametrize("pairs", [[], [[[0.1, 0.2], [0.3, 0.4]]], [[[0.1], [0.2]], [[0.3], [0.1]]]])
def test_what_has_one_of_something_has_no_components(pairs: list[list[list[float]]]) -> None:
    assert components(pairs) is None
