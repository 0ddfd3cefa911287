"""Samples and a recording that are invented, for tests alone: no device ever said this."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from experiments.telemetry.reading import DeviceKind, DeviceReading, ProcessReading, Sample
from experiments.telemetry.trace import Trace

BEGUN = datetime(2026, 11, 2, 3, 0, tzinfo=UTC)
MODEL = "Synthetic GPU"


def gpu(index: int = 0, **readings: object) -> DeviceReading:
    told: dict[str, object] = {
        "utilization_percent": 97.0,
        "memory_used_bytes": 21 * 2**30,
        "memory_total_bytes": 140 * 2**30,
        "power_w": 432.0,
        "power_limit_w": 700.0,
        "temperature_c": 54.0,
        "clock_mhz": 1980.0,
        "clock_max_mhz": 1980.0,
        "throttle": (),
        "processes": (ProcessReading(4711, "python3.11", 20 * 2**30),),
    }
    return DeviceReading(f"cuda:{index}", DeviceKind.GPU, MODEL, **{**told, **readings})  # type: ignore[arg-type]


def cpu(**readings: object) -> DeviceReading:
    told: dict[str, object] = {
        "utilization_percent": 12.0,
        "memory_used_bytes": 6 * 2**30,
        "memory_total_bytes": 64 * 2**30,
    }
    return DeviceReading("cpu", DeviceKind.CPU, "Synthetic CPU, 16 cores", **{**told, **readings})  # type: ignore[arg-type]


def sample(second: float, *devices: DeviceReading, host: str = "desk", note: str | None = None) -> Sample:
    return Sample(BEGUN + timedelta(seconds=second), host, devices or (gpu(), cpu()), note)


def trace(seconds: int = 60) -> Trace:
    """A recording that says it is invented: a GPU whose load goes up and down every ten seconds."""
    samples = []
    for second in range(seconds):
        busy = second // 10 % 2 == 0
        device = gpu(
            utilization_percent=95.0 + second % 3 if busy else 2.0,
            power_w=430.0 + second % 5 if busy else 90.0,
            temperature_c=50.0 + second % 10,
            throttle=("power cap",) if second % 20 == 5 else (),
        )
        samples.append(sample(second, device, cpu(utilization_percent=10.0 + second % 7)))
    return Trace("synthetic", tuple(samples))
