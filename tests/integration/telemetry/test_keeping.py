"""Five-minute means in a real database."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from experiments.telemetry.history import History
from experiments.telemetry.keeping import keep, kept
from experiments.telemetry.means import window_means
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


def test_of_a_window_the_mean_of_the_most_readings_stays(tmp_path: Path) -> None:
    """A dashboard that ends keeps the window that is not over; one that begins then has less of it."""
    history = History()
    for second in range(3):
        history.add(sample(second, gpu()))
    [mean] = window_means(history.devices(BEGUN), BEGUN)
    more, less = replace(mean, samples=200, power_w=500.0), replace(mean, samples=90, power_w=100.0)
    database = new_database(tmp_path)
    for each in (mean, more, less):
        with database.write() as session:
            keep(session, [each])
    with database.read() as session:
        assert kept(session, BEGUN) == (more,)
    database.close()
