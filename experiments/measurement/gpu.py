"""What the NVIDIA driver says of a GPU, as evidence: its limits, and its state at a moment.

Whatever the driver does not answer is None: a field that a GPU lacks is no error.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from experiments.measurement.evidence import Json
from experiments.telemetry.driver import Driver, NoDriver, as_number, open_driver
from experiments.telemetry.visible_device import NotVisible, visible_handle

_MW_PER_W = 1000
"""NVML states power in milliwatts."""


def gpu_facts(device: str) -> dict[str, Json] | None:
    """Name, memory, limits and driver of `cuda:N`; None for a CPU and where NVML is not to be had."""
    found = _handle(device)
    if found is None:
        return None
    driver, handle = found
    return {
        "name": driver.text("DeviceGetName", handle),
        "driver": driver.text("SystemGetDriverVersion"),
        "cuda_driver": driver.number("SystemGetCudaDriverVersion"),
        "memory_bytes": _memory(driver, handle, "total"),
        "power_limit_w": _watts(driver.number("DeviceGetEnforcedPowerLimit", handle)),
        "max_sm_mhz": driver.number("DeviceGetMaxClockInfo", handle, driver.constant("CLOCK_SM")),
        "max_memory_mhz": driver.number("DeviceGetMaxClockInfo", handle, driver.constant("CLOCK_MEM")),
    }


def gpu_moment(device: str) -> dict[str, Json] | None:
    """Clocks, power, temperature, use and memory of `cuda:N` now; None as for `gpu_facts`."""
    found = _handle(device)
    if found is None:
        return None
    driver, handle = found
    return {
        "sm_mhz": driver.number("DeviceGetClockInfo", handle, driver.constant("CLOCK_SM")),
        "memory_mhz": driver.number("DeviceGetClockInfo", handle, driver.constant("CLOCK_MEM")),
        "power_w": _watts(driver.number("DeviceGetPowerUsage", handle)),
        "temperature_c": driver.number("DeviceGetTemperature", handle, driver.constant("TEMPERATURE_GPU")),
        "used_bytes": _memory(driver, handle, "used"),
        "use_percent": as_number(getattr(driver.ask("DeviceGetUtilizationRates", handle), "gpu", None)),
        "throttle_reasons": driver.number("DeviceGetCurrentClocksThrottleReasons", handle),
    }


@cache
def _driver() -> Driver | None:
    """The driver, opened once a process; None where package or driver is missing."""
    try:
        return open_driver()
    except NoDriver:
        return None


def _handle(device: str) -> tuple[Driver, Any] | None:
    driver = _driver() if device.partition(":")[0] == "cuda" else None
    if driver is None:
        return None
    try:
        return driver, visible_handle(driver, device)
    except NotVisible:
        return None


def _memory(driver: Driver, handle: Any, which: str) -> int | None:
    return as_number(getattr(driver.ask("DeviceGetMemoryInfo", handle), which, None))


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / _MW_PER_W
