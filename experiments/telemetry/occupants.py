"""Who holds memory of a CUDA device now, asked of the driver without touching the device.

Processes that only draw (a desktop's) are told apart from those that compute. In a container the driver may
list no process at all, or name it by the number that it has outside.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psutil

from experiments.telemetry.driver import Driver, NoDriver, as_number, open_driver
from experiments.telemetry.free_memory import MemoryUnknown
from experiments.telemetry.visible_device import NotVisible, is_divided, visible_handle

GB = 1e9

_GONE = {15: "GPU is lost", 16: "GPU requires a reset"}
"""NVML's error numbers of a device that nothing can use until someone intervenes (`NVML_ERROR_GPU_IS_LOST`,
`NVML_ERROR_RESET_REQUIRED`), in its words."""


class DeviceGone(Exception):
    """The driver says that the device is lost; the message is its words."""


@dataclass(frozen=True)
class Occupant:
    """A process with memory on a device; what the driver or the system does not tell is None."""

    pid: int
    name: str | None
    used_bytes: int | None

    def __str__(self) -> str:
        held = "an unknown amount" if self.used_bytes is None else f"{self.used_bytes / GB:.1f} GB"
        return f"process {self.pid} ({self.name or 'its name is hidden'}) holds {held}"


@dataclass(frozen=True)
class DeviceUse:
    """What is used of a device, without what the driver keeps for itself where it tells the two apart.

    `computing` are the processes that compute, largest first, None where the driver lists none of a device;
    `drawn_bytes` is what processes hold that draw.
    """

    used_bytes: int
    total_bytes: int
    computing: tuple[Occupant, ...] | None
    drawn_bytes: int = 0


def device_use(
    device: str,
    open_library: Callable[[], Driver] = open_driver,
    environment: Mapping[str, str] = os.environ,
    name_of: Callable[[int], str | None] | None = None,
) -> DeviceUse:
    """What is used of `cuda:N`, counted as `free_memory.device_memory` counts.

    Raises `DeviceGone` for one that is lost, `MemoryUnknown` as `device_memory` does.
    """
    try:
        driver = open_library()
    except NoDriver as reason:
        raise MemoryUnknown(str(reason)) from None
    try:
        return _use_of(device, driver, environment, name_of or process_name)
    finally:
        driver.close()


def process_name(pid: int) -> str | None:
    """The name of a process of this machine; None for one that is not seen here."""
    with suppress(psutil.Error):
        return str(psutil.Process(pid).name())
    return None


def _use_of(
    device: str, driver: Driver, environment: Mapping[str, str], name_of: Callable[[int], str | None]
) -> DeviceUse:
    try:
        handle = visible_handle(driver, device, environment)
    except NotVisible as reason:
        index = device.partition(":")[2] or "0"
        _raise_if_gone(driver, "DeviceGetHandleByIndex", int(index))
        raise MemoryUnknown(str(reason)) from None
    if is_divided(driver, handle):
        raise MemoryUnknown(f"{device} is divided, and which instance of it a launch gets is not known.")
    _raise_if_gone(driver, "DeviceGetMemoryInfo", handle)
    used, total = _memory(driver, handle)
    if used is None or not total:
        raise MemoryUnknown(f"The driver does not say how much memory of {device} is used.")
    drawing = _processes(driver, "DeviceGetGraphicsRunningProcesses", handle) or {}
    computing = _processes(driver, "DeviceGetComputeRunningProcesses", handle)
    listed = None
    if computing is not None:
        ordered = sorted(computing.items(), key=lambda item: (-(item[1] or 0), item[0]))
        listed = tuple(Occupant(pid, name_of(pid), held) for pid, held in ordered if pid not in drawing)
    return DeviceUse(used, total, listed, sum(held or 0 for held in drawing.values()))


def _raise_if_gone(driver: Driver, question: str, *arguments: Any) -> None:
    trouble = driver.trouble(question, *arguments)
    if trouble in _GONE:
        raise DeviceGone(_GONE[trouble])


def _memory(driver: Driver, handle: Any) -> tuple[int | None, int | None]:
    """Used and total; the second version of the question leaves out what the driver keeps for itself."""
    version = getattr(driver.nvml, "nvmlMemory_v2", None)
    answer = None if version is None else driver.ask("DeviceGetMemoryInfo", handle, version)
    answer = answer or driver.ask("DeviceGetMemoryInfo", handle)
    return as_number(getattr(answer, "used", None)), as_number(getattr(answer, "total", None))


def _processes(driver: Driver, question: str, handle: Any) -> dict[int, int | None] | None:
    answer = driver.ask(question, handle)
    if answer is None:
        return None
    found = {as_number(getattr(each, "pid", None)): getattr(each, "usedGpuMemory", None) for each in answer}
    return {pid: as_number(held) for pid, held in found.items() if pid is not None}
