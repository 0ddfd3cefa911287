"""Series of several databases are counted together where they are of the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from configs.errors import UsageError
from tests.proofs.real_equal_arms import RealSeries, pooled

ONE = RealSeries(
    label="C-1",
    engine="reference",
    model="reference",
    target="cpu",
    metric="tpot_ms",
    launches=40,
    launch_sd_log=0.01,
    launch_sd_bounds=(0.008, 0.014),
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
    assert pooled([ONE]) is ONE
    assert pooled([]) is None


def test_counts_add_up_and_variances_are_weighted_by_degrees_of_freedom() -> None:
    other = replace(ONE, launches=20, freedom=10, launch_sd_log=0.02, experiments=3, held_everywhere=2)
    both = pooled([ONE, other])
    assert both is not None
    assert (both.launches, both.experiments, both.freedom) == (60, 8, 30)
    assert (both.held.count, both.held.of) == (7, 8)
    assert both.launch_sd_log == pytest.approx(((20 * 0.01**2 + 10 * 0.02**2) / 30) ** 0.5)
    assert both.launch_sd_bounds[0] < both.launch_sd_log < both.launch_sd_bounds[1]
    assert both.label == "C-1 of each of 2 databases"


def test_series_of_different_things_are_refused() -> None:
    with pytest.raises(UsageError, match="target is cpu in one and cuda:0 in another"):
        pooled([ONE, replace(ONE, target="cuda:0")])
