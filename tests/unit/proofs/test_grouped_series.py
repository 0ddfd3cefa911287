"""Series of several databases are counted together where they are of the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from configs.errors import UsageError
from tests.proofs.real_equal_arms import RealSeries, grouped, held, supported
from tests.proofs.simulated_rates import TimeNoise

ONE = RealSeries(
    label="C-1",
    engine="reference",
    model="reference",
    target="cpu",
    configuration="serving.threads=2",
    workload="128 tokens in, 48 out",
    host="2 cores",
    metric="tpot_ms",
    launches=40,
    launch_sd_log=0.01,
    launch_sd_bounds=(0.008, 0.014),
    noise=TimeNoise(0.008, 0.0, 0.02),
    freedom=20,
    judge="launch-interval 6",
    min_effect=0.03,
    experiments=5,
    experiments_supported=0,
    experiments_refuted=4,
    held_everywhere=5,
    first_looks=20,
    first_held=19,
    beyond=1,
)


def test_one_series_is_itself_and_none_is_none() -> None:
    assert grouped([ONE]) == (ONE,)
    assert grouped([]) == ()


def test_counts_add_up_and_variances_are_weighted_by_degrees_of_freedom() -> None:
    other = replace(ONE, launches=20, freedom=10, launch_sd_log=0.02, experiments=3, held_everywhere=2)
    [both] = grouped([ONE, other])
    assert (both.launches, both.experiments, both.freedom) == (60, 8, 30)
    assert (both.held.count, both.held.of) == (7, 8)
    assert both.launch_sd_log == pytest.approx(((20 * 0.01**2 + 10 * 0.02**2) / 30) ** 0.5)
    assert both.noise == ONE.noise
    assert both.launch_sd_bounds[0] < both.launch_sd_log < both.launch_sd_bounds[1]
    assert both.label == "C-1 and 1 more"


@pytest.mark.parametrize(
    "other",
    [
        replace(ONE, configuration="serving.threads=1"),
        replace(ONE, workload="128 tokens in, 32 out"),
        replace(ONE, host="2 of 32 cores"),
    ],
    ids=["configuration", "workload", "host"],
)
def test_series_of_another_ground_stay_apart_in_the_order_given(other: RealSeries) -> None:
    found = grouped([ONE, other, ONE])
    assert [each.launches for each in found] == [80, 40]
    assert (supported(found).of, held(found).count) == (15, 15)


def test_series_that_were_judged_otherwise_are_refused() -> None:
    with pytest.raises(
        UsageError, match="judge is launch-interval 6 in one and launch-interval 5 in another"
    ):
        grouped([ONE, replace(ONE, judge="launch-interval 5")])
