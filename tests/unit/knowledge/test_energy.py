"""The energy of a device from the means of its power."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from experiments.telemetry.collect import MEASURED_INTERVAL_S
from experiments.telemetry.history import DeviceHistory
from experiments.telemetry.means import WINDOW_S, window_means, window_of
from experiments.telemetry.reading import DeviceKind, DeviceReading
from experiments.telemetry.trace import RECORDINGS, read_trace
from knowledge.energy import PowerMean, Span, device_energy
from knowledge.queries.spent.energy import DeviceEnergyView, EnergyView
from knowledge.telling.energy_words import energy_told

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def span(begin_s: float, end_s: float) -> Span:
    return at(begin_s), at(end_s)


def mean(window: int, power_w: float, samples: int = WINDOW_S) -> PowerMean:
    return PowerMean(at(window * WINDOW_S), samples, power_w)


def means_of(moments: list[tuple[datetime, DeviceReading]]) -> list[PowerMean]:
    """Means of readings as they are kept of a device."""
    history = DeviceHistory("desk", tuple(moments))
    windows = sorted({window_of(each) for each, _ in moments})
    kept = [each for window in windows for each in window_means([history], window)]
    return [PowerMean(each.started_at, each.samples, each.power_w or 0.0, each.read_s) for each in kept]


def trapezoids_j(moments: list[tuple[datetime, DeviceReading]]) -> float:
    """The integral of the readings themselves."""
    return sum(
        (one.power_w + two.power_w) / 2 * (later - earlier).total_seconds()
        for (earlier, one), (later, two) in pairwise(moments)
        if one.power_w is not None and two.power_w is not None
    )


def readings(power_w: Callable[[int], float], *seconds: range) -> list[tuple[datetime, DeviceReading]]:
    return [
        (at(second), DeviceReading(name="cuda:0", kind=DeviceKind.GPU, model="GPU", power_w=power_w(second)))
        for each in seconds
        for second in each
    ]


def test_constant_power_takes_its_watts_each_second() -> None:
    found = device_energy([mean(0, 500.0), mean(1, 500.0)], [span(60, 540)])
    assert (found.energy_j, found.covered_s, found.span_s) == (500.0 * 480, 480.0, 480.0)


def test_a_ramp_has_the_integral_of_its_readings() -> None:
    ramp = readings(lambda second: 100.0 + second / 2, range(1201))
    found = device_energy(means_of(ramp), [span(0, 1200)])
    assert found.covered_s == 1200.0
    assert found.energy_j == pytest.approx(trapezoids_j(ramp), rel=0.002)


def test_readings_stand_for_five_seconds_each_while_the_host_s_processors_are_measured() -> None:
    ramp = readings(lambda second: 100.0 + second / 2, range(0, 1200, int(MEASURED_INTERVAL_S)))
    found = device_energy(means_of(ramp), [span(0, 1200)], [span(0, 1200)])
    assert found.covered_s == 1200.0
    assert found.energy_j == pytest.approx(trapezoids_j(ramp), rel=0.01)


def test_where_readings_lack_meanwhile_that_while_is_not_covered() -> None:
    lacking = readings(lambda second: 500.0, range(0, 150, int(MEASURED_INTERVAL_S)))
    found = device_energy(means_of(lacking), [span(0, 300)], [span(0, 200), span(150, 300)])
    assert (found.energy_j, found.covered_s) == (500.0 * 150, 150.0)


def test_time_in_which_nothing_was_read_does_not_count_though_processors_were_measured_then() -> None:
    """Half a minute was read, every second, and then no dashboard ran."""
    lacking = means_of(readings(lambda second: 500.0, range(30)))
    jobs, measured = [span(0, 30), span(100, 300)], [span(150, 300)]
    for means in (lacking, [replace(each, read_s=None) for each in lacking]):
        found = device_energy(means, jobs, measured)
        assert (found.energy_j, found.covered_s) == (500.0 * 30, 30.0)


def test_windows_of_before_seconds_were_kept_count_for_the_least_that_their_readings_may_stand_for() -> None:
    half, whole = mean(0, 500.0, samples=30), mean(0, 500.0, samples=60)
    assert device_energy([half], [span(0, 300)]).covered_s == 30.0, "once a second otherwise"
    assert device_energy([half], [span(0, 300)], [span(0, 300)]).covered_s == 150.0
    assert device_energy([whole], [span(0, 300)], [span(0, 300)]).covered_s == 300.0
    assert device_energy([half], [span(0, 300)], [span(20, 300)]).covered_s == 20.0 + 10 * 5


def test_of_a_window_that_is_not_over_all_counts_that_was_read_meanwhile() -> None:
    begun = readings(lambda second: 500.0, range(0, 120, int(MEASURED_INTERVAL_S)))
    found = device_energy(means_of(begun), [span(0, 120)], [span(0, 120)])
    assert (found.energy_j, found.covered_s) == (500.0 * 120, 120.0)


def test_readings_count_for_their_own_time_where_processors_begin_to_be_measured() -> None:
    """A hundred seconds at 100 W, read every second, then two hundred at 400 W, read every five."""
    parts = readings(lambda second: 100.0 if second < 100 else 400.0, range(100), range(104, 300, 5))
    found = device_energy(means_of(parts), [span(0, 300)], [span(100, 300)])
    assert found.covered_s == 300.0
    assert found.energy_j == pytest.approx(100 * 100.0 + 200 * 400.0, rel=0.01)


def test_windows_without_a_reading_are_not_bridged() -> None:
    found = device_energy([mean(0, 500.0), mean(3, 300.0)], [span(0, 1200)])
    assert found.energy_j == 800.0 * 300
    assert (found.covered_s, found.span_s) == (600.0, 1200.0)


def test_a_window_that_was_read_for_a_while_counts_for_that_while() -> None:
    found = device_energy([mean(0, 500.0, samples=40)], [span(0, 300)])
    assert (found.energy_j, found.covered_s) == (500.0 * 40, 40.0)
    nearly = device_energy([mean(0, 500.0, samples=280)], [span(0, 300)])
    assert nearly.covered_s == 300.0, "a busy driver leaves a few out"


def test_one_reading_is_no_energy_to_speak_of() -> None:
    found = device_energy([mean(0, 500.0, samples=1)], [span(0, 300)])
    assert (found.energy_j, found.covered_s) == (500.0, 1.0)


def test_means_and_jobs_come_in_any_order_and_no_second_counts_twice() -> None:
    means, jobs = [mean(2, 300.0), mean(0, 100.0), mean(1, 200.0)], [span(500, 900), span(0, 550)]
    found = device_energy(means, jobs)
    assert found == device_energy(reversed(means), reversed(jobs))
    assert (found.energy_j, found.covered_s, found.span_s) == (600.0 * 300, 900.0, 900.0)
    assert [part.mean.power_w for part in found.parts] == [100.0, 200.0, 300.0]


def test_what_lies_outside_of_jobs_counts_for_nothing() -> None:
    found = device_energy([mean(0, 70.0), mean(1, 500.0)], [span(300, 310), span(320, 330)])
    assert (found.energy_j, found.covered_s) == (500.0 * 20, 20.0)
    assert device_energy([mean(0, 70.0)], []).parts == ()
    assert device_energy([], [span(0, 10)]).span_s == 10.0


@pytest.mark.parametrize("name", ["h200", "h200-x2"])
def test_of_recorded_cards_it_is_what_their_readings_have(name: str) -> None:
    trace = read_trace(Path(RECORDINGS / f"{name}.jsonl.gz"))
    names = {each.name for sample in trace.samples for each in sample.devices if each.power_w is not None}
    assert names
    for device in names:
        moments = [
            (sample.at, each) for sample in trace.samples for each in sample.devices if each.name == device
        ]
        found = device_energy(means_of(moments), [(moments[0][0], moments[-1][0])])
        assert found.covered_s == pytest.approx(found.span_s, rel=0.02)
        assert found.energy_j == pytest.approx(trapezoids_j(moments), rel=0.02)
        assert 60.0 < found.energy_j / found.covered_s < 700.0, "a H200 takes at most 700 W"


def told_of(read_s: float, of_s: float) -> str | None:
    return energy_told(
        EnergyView(
            energy_wh=read_s / 36,
            covered_s=read_s,
            job_s=of_s,
            devices=(
                DeviceEnergyView(
                    device="desk/cuda:0",
                    model=None,
                    energy_wh=read_s / 36,
                    covered_s=read_s,
                    job_s=of_s,
                    windows=(),
                ),
            ),
        )
    )


def test_energy_is_told_with_the_time_in_which_power_was_read_where_that_is_not_nearly_all() -> None:
    assert told_of(3500.0, 3600.0) == "The card took about 0.097 kWh while experiments ran"
    assert told_of(1800.0, 3600.0) == (
        "The card took about 0.050 kWh while experiments ran, counted for the 50 % of that time in which its "
        "power was read"
    )
    assert "counted for the less than 1 % of that time" in str(told_of(3.6, 3600.0))
    assert energy_told(None) is None


def unread(*devices: str) -> str | None:
    found = tuple(
        DeviceEnergyView(device=each, model=None, energy_wh=0.0, covered_s=0.0, job_s=60.0, windows=())
        for each in devices
    )
    return energy_told(EnergyView(energy_wh=None, covered_s=0.0, job_s=60.0 * len(found), devices=found))


def test_where_no_power_was_read_it_says_what_tells_why_unless_the_machines_were_rented() -> None:
    unknown = "is not known: no reading of power was kept while experiments ran"
    assert unread("modal:L4/J-7") == f"How much energy the card took {unknown}"
    assert unread("desk/cuda:0") == (
        f"How much energy the card took {unknown}; "
        "autoinfer devices, run where the card is, tells whether its driver reports power"
    )
    assert unread("modal:L4/J-7", "desk/cuda:0") == (
        f"How much energy the cards took {unknown}; "
        "autoinfer devices, run where the cards are, tells whether their driver reports power"
    )
