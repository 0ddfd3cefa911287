"""A watch reads at both ends and in between; what is not told is None. The driver here is invented."""

from collections.abc import Callable, Mapping
from threading import Event
from typing import Any

import pytest

from experiments.telemetry.driver import NO_DRIVER, Driver, NoDriver
from experiments.telemetry.watching import GpuReading, GpuWatch, gpu_watches, reading_of
from tests.unit.telemetry.fake_nvml import HEALTHY, FakeNvml

SERVING: Mapping[str, Any] = {**HEALTHY, "TotalEnergyConsumption": 5_000_000}


class FakeWithMemoryClock(FakeNvml):
    NVML_CLOCK_MEM = 2


def read(table: Mapping[str, Any]) -> GpuReading:
    driver = Driver(FakeWithMemoryClock(table))
    return reading_of(driver, table, clock=lambda: 7.0)


def test_a_reading_has_clocks_power_temperature_energy_and_reasons_in_its_units() -> None:
    assert read(SERVING) == GpuReading(7.0, 1980, 1980, pytest.approx(432.1), 54, pytest.approx(5000), 0x1)


def test_what_a_gpu_does_not_tell_is_none() -> None:
    assert read({}) == GpuReading(7.0)
    assert read({**SERVING, "TotalEnergyConsumption": 2**64 - 1, "PowerUsage": 0}).energy_j is None
    older = {name: value for name, value in SERVING.items() if "Reasons" not in name}
    assert read({**older, "CurrentClocksThrottleReasons": 0x40}).throttle_bits == 0x40


def counted() -> tuple[Callable[[], GpuReading], list[float], Event]:
    taken: list[float] = []
    enough = Event()

    def one() -> GpuReading:
        taken.append(float(len(taken)))
        if len(taken) >= 5:
            enough.set()
        return GpuReading(taken[-1])

    return one, taken, enough


def test_a_watch_reads_at_both_ends_and_in_between_in_order() -> None:
    one, taken, enough = counted()
    with GpuWatch(one, interval_s=0.001) as watch:
        assert enough.wait(10)
    assert [each.at_s for each in watch.readings] == taken
    assert len(taken) >= 6


def test_a_block_shorter_than_the_interval_has_the_readings_of_its_ends() -> None:
    one, _, _ = counted()
    with GpuWatch(one, interval_s=60) as watch:
        pass
    assert [each.at_s for each in watch.readings] == [0, 1]


def test_a_watch_that_is_ended_reads_no_more_before_its_block_is_over() -> None:
    one, taken, enough = counted()
    with GpuWatch(one, interval_s=0.001) as watch:
        assert enough.wait(10)
        watch.end()
        watch._thread.join(10)
        assert not watch._thread.is_alive()
        so_far = len(taken)
    assert len(watch.readings) == so_far + 1


def test_the_thread_ends_with_a_block_that_fails() -> None:
    one, taken, _ = counted()
    watch = GpuWatch(one, interval_s=0.001)
    with pytest.raises(RuntimeError), watch:
        raise RuntimeError
    assert not watch._thread.is_alive()
    assert len(watch.readings) == len(taken)


def test_a_cpu_a_missing_driver_and_a_missing_device_have_no_watch() -> None:
    def missing() -> Driver:
        raise NoDriver(NO_DRIVER)

    def never() -> Driver:
        raise AssertionError("nobody asks a driver for a CPU")

    assert gpu_watches("cpu", never) is None
    assert gpu_watches("cuda:0", missing, {}) is None
    assert gpu_watches("cuda:0", lambda: Driver(FakeNvml(None)), {}) is None
    assert gpu_watches("cuda:0", lambda: Driver(FakeWithMemoryClock(SERVING)), {}) is not None
