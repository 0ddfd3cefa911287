"""Readings of all GPUs of this host by NVML, instances of divided ones among them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from typing import Any

from experiments.telemetry.driver import Driver, as_number
from experiments.telemetry.reading import DeviceKind, DeviceReading, ProcessReading

_MW_PER_W = 1000
"""NVML states power in milliwatts."""

HOTTEST_C = 200
"""No GPU says a temperature above this and means it, in degrees Celsius."""

THROTTLE_REASONS = {
    0x2: "clocks set by an application",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "clocks in step with another GPU",
    0x20: "heat, by the driver",
    0x40: "heat, by the hardware",
    0x80: "power brake of the host",
    0x100: "clocks set by the display",
}
"""Bits of NVML's reasons for clocks below the highest, in words. 0x1, an idle GPU, is no throttling."""

IDLE_BIT = 0x1


def read_gpus(
    driver: Driver, name_of: Callable[[int], str | None] = lambda pid: None
) -> tuple[DeviceReading, ...]:
    """Every GPU, each followed by its instances; `name_of` gives the name of a process of this host.

    A GPU whose handle can't be had (it fell off the bus, it is another user's) is there without readings.
    `cuda:N` is the N-th GPU in the driver's order, which is CUDA's under `CUDA_DEVICE_ORDER=PCI_BUS_ID`.
    """
    found: list[DeviceReading] = []
    for index in range(driver.number("DeviceGetCount") or 0):
        name = f"cuda:{index}"
        handle = driver.ask("DeviceGetHandleByIndex", index)
        if handle is None:
            found.append(DeviceReading(name, DeviceKind.GPU, "GPU that does not answer"))
            continue
        model = driver.text("DeviceGetName", handle) or "NVIDIA GPU"
        found.append(_gpu(driver, handle, name, model, name_of))
        found += _instances(driver, handle, name, model, name_of)
    return tuple(found)


def _gpu(
    driver: Driver, handle: Any, name: str, model: str, name_of: Callable[[int], str | None]
) -> DeviceReading:
    used, total = _memory(driver, handle)
    clock = driver.constant("CLOCK_SM")
    return DeviceReading(
        name=name,
        kind=DeviceKind.GPU,
        model=model,
        utilization_percent=_utilization(driver, handle),
        memory_used_bytes=used,
        memory_total_bytes=total,
        power_w=_watts(driver.number("DeviceGetPowerUsage", handle)),
        power_limit_w=_watts(driver.number("DeviceGetEnforcedPowerLimit", handle)),
        temperature_c=_temperature(driver, handle),
        clock_mhz=driver.number("DeviceGetClockInfo", handle, clock),
        clock_max_mhz=driver.number("DeviceGetMaxClockInfo", handle, clock),
        throttle=_throttle(driver, handle),
        processes=_processes(driver, handle, name_of),
    )


def _instances(
    driver: Driver, handle: Any, name: str, model: str, name_of: Callable[[int], str | None]
) -> list[DeviceReading]:
    """The instances of a GPU that is divided; places without one are passed over."""
    mode = driver.ask("DeviceGetMigMode", handle)  # now, and after the next reset
    if not isinstance(mode, tuple | list) or not mode or mode[0] != 1:
        return []
    found = []
    for index in range(driver.number("DeviceGetMaxMigDeviceCount", handle) or 0):
        instance = driver.ask("DeviceGetMigDeviceHandleByIndex", handle, index)
        if instance is None:
            continue
        used, total = _memory(driver, instance)
        found.append(
            DeviceReading(
                name=f"{name}/mig:{index}",
                kind=DeviceKind.MIG,
                model=driver.text("DeviceGetName", instance) or f"{model}, an instance",
                utilization_percent=_utilization(driver, instance),
                memory_used_bytes=used,
                memory_total_bytes=total,
                processes=_processes(driver, instance, name_of),
            )
        )
    return found


def _utilization(driver: Driver, handle: Any) -> float | None:
    percent = as_number(getattr(driver.ask("DeviceGetUtilizationRates", handle), "gpu", None))
    return percent if percent is not None and percent <= 100 else None


def _memory(driver: Driver, handle: Any) -> tuple[int | None, int | None]:
    """Used and total; a total of none, as GPUs state that share the host's memory, is no reading."""
    answer = driver.ask("DeviceGetMemoryInfo", handle)
    total = as_number(getattr(answer, "total", None))
    return (as_number(getattr(answer, "used", None)), total) if total else (None, None)


def _watts(milliwatts: int | None) -> float | None:
    """A running GPU draws power, so that none is no reading."""
    return milliwatts / _MW_PER_W if milliwatts else None


def _temperature(driver: Driver, handle: Any) -> float | None:
    found = driver.number("DeviceGetTemperature", handle, driver.constant("TEMPERATURE_GPU"))
    return found if found is not None and 0 < found < HOTTEST_C else None


def _throttle(driver: Driver, handle: Any) -> tuple[str, ...] | None:
    """Reasons in words; older libraries know the question by its old name alone."""
    bits = driver.number("DeviceGetCurrentClocksEventReasons", handle)
    if bits is None:
        bits = driver.number("DeviceGetCurrentClocksThrottleReasons", handle)
    return None if bits is None else throttle_words(bits)


def throttle_words(bits: int) -> tuple[str, ...]:
    """NVML's reasons in words; a bit without a name is told by its number."""
    return tuple(
        THROTTLE_REASONS.get(1 << place, f"reason {1 << place:#x}")
        for place in range(bits.bit_length())
        if bits & 1 << place and 1 << place != IDLE_BIT
    )


def _processes(
    driver: Driver, handle: Any, name_of: Callable[[int], str | None]
) -> tuple[ProcessReading, ...] | None:
    """Processes that compute, largest first; the driver may know a process and not its memory."""
    answer = driver.ask("DeviceGetComputeRunningProcesses", handle)
    if answer is None:
        return None
    found: dict[int, int | None] = {}
    for each in answer:
        pid = as_number(getattr(each, "pid", None))
        if pid is not None:
            found[pid] = as_number(getattr(each, "usedGpuMemory", None))
    ordered = sorted(found.items(), key=lambda item: (-(item[1] or 0), item[0]))
    return tuple(ProcessReading(pid, _bare(name_of(pid)), memory) for pid, memory in ordered)


def _bare(name: str | None) -> str | None:
    return PurePath(name).name[:80] if name else None
