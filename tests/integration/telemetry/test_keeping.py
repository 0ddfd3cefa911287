"""Five-minute means in a real database."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from experiments.telemetry.history import History
from experiments.telemetry.keeping import keep, kept
from experiments.telemetry.means import joined, window_means
from tests.new_database import new_database
from tests.unit.telemetry.synthetic import BEGUN, gpu, sample


def test_means_come_back_and_a_window_is_stored_once(tmp_path: Path) -> None:
    history = History()
    for second in range(3):
        history.add(sample(second))
    means = window_means(history.devices(BEGUN), BEGUN)
    earlier = tuple(replace(mean, started_at=BEGUN - timedelta(days=2)) for mean in means)
    database = new_database(tmp_path)
    for _ in range(2):
        with database.write() as session:
            keep(session, (*means, *earlier))
    with database.read() as session:
        assert sorted(kept(session, BEGUN - timedelta(days=1)), key=lambda each: each.device) == sorted(
            means, key=lambda each: each.device
        )
        assert len(kept(session, BEGUN - timedelta(days=3))) == 4
    database.close()


def test_of_a_window_the_mean_of_the_longest_time_stays(tmp_path: Path) -> None:
    """Of two dashboards at once, one reads later and every second, the other longer and less often."""
    history = History()
    for second in range(3):
        history.add(sample(second, gpu()))
    [mean] = window_means(history.devices(BEGUN), BEGUN)
    more = replace(mean, samples=40, read_s=200.0, power_w=500.0)
    less = replace(mean, samples=60, read_s=60.0, power_w=100.0)
    before = replace(mean, samples=150, read_s=None, power_w=300.0)
    database = new_database(tmp_path)
    for each in (before, mean, more, less, before):
        with database.write() as session:
            keep(session, [each])
    with database.read() as session:
        assert kept(session, BEGUN) == (more,)
    database.close()


def test_parts_of_a_window_are_one_mean_of_all_that_was_read(tmp_path: Path) -> None:
    history = History()
    history.add(sample(0, gpu()))
    [mean] = window_means(history.devices(BEGUN), BEGUN)
    first = replace(mean, samples=40, read_s=200.0, power_w=500.0, throttled_share=None, clock_mhz=None)
    then = replace(mean, samples=50, read_s=50.0, power_w=100.0, throttled_share=0.5)
    both = joined(first, then)
    assert (both.samples, both.read_s, both.power_w) == (90, 250.0, pytest.approx(420.0))
    assert (both.throttled_share, both.clock_mhz) == (0.5, then.clock_mhz), "what one part alone tells"
    assert joined(first, replace(then, read_s=290.0)).read_s == 300.0
    before = replace(first, read_s=None)
    assert joined(before, then).read_s == 90.0, "a reading stands for a second at least"
