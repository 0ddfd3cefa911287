"""One GPU, read again and again while something runs on it.

A thread asks the driver from the process that waits for the launch's answer, which has nothing else to do
then. Four times a second is far slower than a decode step and often enough that a block of seconds shows a
clock that fell.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from experiments.telemetry.driver import Driver, NoDriver, open_driver
from experiments.telemetry.visible_device import NotVisible, visible_handle

INTERVAL_S = 0.25
"""Seconds between readings."""

MILLI = 1e-3
"""NVML states power in milliwatts and energy in millijoules."""


@dataclass(frozen=True)
class GpuReading:
    """A GPU at `at_s` of a monotonic clock; None for what the driver does not tell.

    `energy_j` is the driver's count since it was loaded; `throttle_bits` are NVML's reasons for clocks below
    the highest.
    """

    at_s: float
    sm_mhz: float | None = None
    memory_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    energy_j: float | None = None
    throttle_bits: int | None = None


class GpuWatch:
    """Reads from its `with` block's beginning to its end, at both and in between; then `readings` are all."""

    def __init__(self, read: Callable[[], GpuReading], interval_s: float = INTERVAL_S) -> None:
        self.readings: tuple[GpuReading, ...] = ()
        self._read = read
        self._interval_s = interval_s
        self._ended = threading.Event()
        self._taken: list[GpuReading] = []
        self._thread = threading.Thread(target=self._run, name="GPU readings of a block", daemon=True)

    def __enter__(self) -> GpuWatch:
        self._taken.append(self._read())
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        self._thread.join()
        self._taken.append(self._read())
        self.readings = tuple(self._taken)

    def end(self) -> None:
        """Read no more in between, from whichever thread, while the block goes on; waits for nothing."""
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.wait(self._interval_s):
            self._taken.append(self._read())


def gpu_watches(
    device: str,
    open_library: Callable[[], Driver] = open_driver,
    environment: Mapping[str, str] = os.environ,
) -> Callable[[], GpuWatch] | None:
    """What makes watches of `cuda:N`; None for a CPU, without a driver, and for a device it does not show."""
    if device.partition(":")[0] != "cuda":
        return None
    try:
        driver = open_library()
        handle = visible_handle(driver, device, environment)
    except (NoDriver, NotVisible):
        return None
    return lambda: GpuWatch(lambda: reading_of(driver, handle))


def reading_of(driver: Driver, handle: Any, clock: Callable[[], float] = time.monotonic) -> GpuReading:
    """The device now, in a few calls to the driver; older libraries know throttling by another name."""
    bits = driver.number("DeviceGetCurrentClocksEventReasons", handle)
    if bits is None:
        bits = driver.number("DeviceGetCurrentClocksThrottleReasons", handle)
    return GpuReading(
        at_s=clock(),
        sm_mhz=driver.number("DeviceGetClockInfo", handle, driver.constant("CLOCK_SM")),
        memory_mhz=driver.number("DeviceGetClockInfo", handle, driver.constant("CLOCK_MEM")),
        power_w=_from_milli(driver.number("DeviceGetPowerUsage", handle)),
        temperature_c=driver.number("DeviceGetTemperature", handle, driver.constant("TEMPERATURE_GPU")),
        energy_j=_from_milli(driver.number("DeviceGetTotalEnergyConsumption", handle)),
        throttle_bits=bits,
    )


def _from_milli(value: int | None) -> float | None:
    """A running GPU draws power, so that none is no reading."""
    return value * MILLI if value else None
