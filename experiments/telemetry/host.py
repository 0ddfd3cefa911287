"""Readings of this host: its processors together, and its memory."""

from __future__ import annotations

import psutil

from configs.cpu import probe_cpu
from experiments.telemetry.driver import answer_of
from experiments.telemetry.reading import DeviceKind, DeviceReading

SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal")
"""What Linux calls the sensors of processors."""


class HostReader:
    """Reads the host; utilization is that since the reading before, so the first has none."""

    def __init__(self) -> None:
        cpu = probe_cpu()
        self._model = f"{cpu.name}, {cpu.machine_cores} {'core' if cpu.machine_cores == 1 else 'cores'}"
        self._begun = False

    def read(self) -> DeviceReading:
        """The host now."""
        percent = answer_of(lambda: psutil.cpu_percent(interval=None))
        known, self._begun = self._begun, True
        memory = answer_of(psutil.virtual_memory)
        return DeviceReading(
            name="cpu",
            kind=DeviceKind.CPU,
            model=self._model,
            utilization_percent=percent if known else None,
            memory_used_bytes=None if memory is None else memory.total - memory.available,
            memory_total_bytes=None if memory is None else memory.total,
            temperature_c=_temperature(),
        )


def process_name(pid: int) -> str | None:
    """The name of a process of this host; None for one that is gone or another user's."""
    name = answer_of(lambda: psutil.Process(pid).name())
    return name if isinstance(name, str) else None


def _temperature() -> float | None:
    """The hottest processor, where the machine tells."""
    sensors = answer_of(lambda: psutil.sensors_temperatures()) or {}
    found = [each.current for name in SENSORS for each in sensors.get(name, ()) if each.current > 0]
    return max(found, default=None)
