"""A stand-in for the driver's library, invented for tests: it answers by tables, and raises otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any


class NVMLError(Exception):
    pass


class NVMLError_NotSupported(NVMLError):  # noqa: N801 - as the library names its own
    pass


class NVMLError_LibraryNotFound(NVMLError):  # noqa: N801
    pass


def memory(used: int, total: int) -> SimpleNamespace:
    return SimpleNamespace(used=used, total=total, free=total - used)


def process(pid: int, used: int | None) -> SimpleNamespace:
    return SimpleNamespace(pid=pid, usedGpuMemory=used)


HEALTHY: Mapping[str, Any] = {
    "Name": b"NVIDIA Invented 9000",
    "UtilizationRates": SimpleNamespace(gpu=97, memory=40),
    "MemoryInfo": memory(20 * 2**30, 140 * 2**30),
    "PowerUsage": 432_100,
    "EnforcedPowerLimit": 700_000,
    "Temperature": 54,
    "ClockInfo": 1980,
    "MaxClockInfo": 1980,
    "CurrentClocksEventReasons": 0x1,
    "ComputeRunningProcesses": [process(41, 2**30), process(42, 19 * 2**30)],
}


class FakeNvml:
    """Devices by index, each a table from a question's name to its answer; what is missing raises."""

    NVML_CLOCK_SM = 1
    NVML_TEMPERATURE_GPU = 0

    def __init__(self, *devices: Mapping[str, Any] | None) -> None:
        self.devices = devices
        self.opened = 0

    def nvmlInit(self) -> None:  # noqa: N802 - as the library names it
        self.opened += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.opened -= 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.devices)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Mapping[str, Any]:  # noqa: N802
        found = self.devices[index]
        if found is None:
            raise NVMLError("GPU is lost")
        return found

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: Mapping[str, Any], index: int) -> Any:  # noqa: N802
        found = handle["instances"][index]
        if found is None:
            raise NVMLError("Not Found")
        return found

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvmlDeviceGet"):
            raise AttributeError(name)

        def answer(handle: Mapping[str, Any], *_: object) -> Any:
            try:
                return handle[name.removeprefix("nvmlDeviceGet")]
            except KeyError:
                raise NVMLError_NotSupported("Not Supported") from None

        return answer
