"""Ten minutes in memory, steps of a sparkline, means of five minutes."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from experiments.telemetry.history import History, is_stale, means_of
from experiments.telemetry.means import window_means, window_of
from tests.unit.telemetry.synthetic import BEGUN, cpu, gpu, sample


def at(second: float) -> object:
    return BEGUN + timedelta(seconds=second)


def test_ten_minutes_are_kept_and_no_more() -> None:
    history = History()
    for second in range(700):
        history.add(sample(second))
    device, host = history.devices(BEGUN + timedelta(seconds=700))
    assert (device.key, host.key) == ("desk/cuda:0", "desk/cpu")
    assert len(device.moments) == len(host.moments) == 600
    assert device.moments[0][0] == at(100)
    assert device.at == at(699)


def test_a_device_that_stopped_stays_with_what_it_said_for_an_hour() -> None:
    history = History()
    history.add(sample(0))
    history.add(sample(1, cpu()))
    assert [each.key for each in history.devices(BEGUN + timedelta(minutes=59))] == [
        "desk/cuda:0",
        "desk/cpu",
    ]
    assert history.devices(BEGUN + timedelta(minutes=61)) == ()


def test_a_sample_that_is_no_newer_is_passed_over() -> None:
    history = History()
    history.add(sample(5, gpu(utilization_percent=1.0)))
    history.add(sample(5, gpu(utilization_percent=2.0)))
    history.add(sample(4, gpu(utilization_percent=3.0)))
    (device,) = history.devices(BEGUN + timedelta(seconds=6))
    assert [reading.utilization_percent for _, reading in device.moments] == [1.0]


def test_hosts_and_devices_come_in_order_numbers_as_numbers() -> None:
    history = History()
    history.add(sample(0, cpu(), gpu(10), gpu(9), gpu(2), host="far"))
    history.add(sample(0, cpu(), gpu(), host="desk", note="said so"))
    keys = [each.key for each in history.devices(BEGUN)]
    assert keys == ["desk/cuda:0", "desk/cpu", "far/cuda:2", "far/cuda:9", "far/cuda:10", "far/cpu"]
    assert (history.note("desk"), history.note("far"), history.note("nobody")) == ("said so", None, None)


def test_readings_are_stale_when_samples_stop_and_not_because_they_are_rare() -> None:
    assert not is_stale(3.9, 1.0)
    assert is_stale(4.1, 1.0)
    assert not is_stale(7.9, 5.0)


def test_steps_lie_on_a_grid_and_a_step_without_a_reading_is_a_gap() -> None:
    moments = [(BEGUN + timedelta(seconds=second), gpu(power_w=float(second))) for second in (0, 4, 21, 29)]
    moments.append((BEGUN + timedelta(seconds=31), gpu(power_w=None)))
    end = BEGUN + timedelta(seconds=33)
    assert means_of(moments, ("power_w", "clock_mhz"), end, 10, 5) == (
        (None, 2.0, None, 25.0, None),
        (None, 1980.0, None, 1980.0, 1980.0),
    )
    # Within the same step nothing before moves.
    (found,) = means_of(moments, ("power_w",), end + timedelta(seconds=6), 10, 5)
    assert found == (None, 2.0, None, 25.0, None)


@given(st.lists(st.floats(0, 1e4), min_size=1, max_size=60), st.integers(1, 60))
def test_no_mean_lies_outside_what_was_read(values: list[float], step_s: int) -> None:
    moments = [(BEGUN + timedelta(seconds=place), gpu(power_w=value)) for place, value in enumerate(values)]
    found = [
        mean for mean in means_of(moments, ("power_w",), moments[-1][0], step_s, 61)[0] if mean is not None
    ]
    assert found
    assert min(values) - 1e-6 <= min(found) <= max(found) <= max(values) + 1e-6


def test_a_window_has_the_means_of_its_own_samples() -> None:
    history = History()
    for second in range(290, 320):
        reasons = None if second < 305 else ("power cap",) if second < 310 else ()
        history.add(sample(second, gpu(power_w=100.0 if second < 310 else None, throttle=reasons)))
    start = window_of(BEGUN + timedelta(seconds=301))
    assert start == BEGUN + timedelta(seconds=300)
    (mean,) = window_means(history.devices(BEGUN + timedelta(seconds=320)), start)
    assert (mean.host, mean.device, mean.started_at, mean.samples) == ("desk", "cuda:0", start, 20)
    assert mean.power_w == 100.0
    assert mean.throttled_share == 5 / 15
    assert mean.utilization_percent == 97.0


def test_a_window_without_a_sample_has_no_mean() -> None:
    history = History()
    history.add(sample(0))
    assert window_means(history.devices(BEGUN), BEGUN - timedelta(minutes=5)) == ()
