"""How much memory of a CUDA device is free now, asked of the driver without touching the device."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from experiments.telemetry.driver import Driver, NoDriver, as_number, open_driver
from experiments.telemetry.visible_device import NotVisible, is_divided, visible_handle


class MemoryUnknown(Exception):
    """What is free can't be told; the message says why, in a sentence."""


@dataclass(frozen=True)
class DeviceMemory:
    """Bytes of a device: free now, and in all."""

    free_bytes: int
    total_bytes: int


def device_memory(
    device: str,
    open_library: Callable[[], Driver] = open_driver,
    environment: Mapping[str, str] = os.environ,
) -> DeviceMemory:
    """The memory of `cuda:N` (`cuda` is the first), counted as a process started from here counts devices.

    Numbers are the driver's, so those of `CUDA_DEVICE_ORDER=PCI_BUS_ID`. Raises `MemoryUnknown` where there
    is no driver or no such device, where it does not say, and for one that is divided and not named by its
    instance.
    """
    try:
        driver = open_library()
    except NoDriver as reason:
        raise MemoryUnknown(str(reason)) from None
    try:
        return _memory_of(device, visible_handle(driver, device, environment), driver)
    except NotVisible as reason:
        raise MemoryUnknown(str(reason)) from None
    finally:
        driver.close()


def _memory_of(device: str, handle: Any, driver: Driver) -> DeviceMemory:
    if is_divided(driver, handle):
        raise MemoryUnknown(f"{device} is divided, and which instance of it a launch gets is not known.")
    answer = driver.ask("DeviceGetMemoryInfo", handle)
    free, total = (as_number(getattr(answer, name, None)) for name in ("free", "total"))
    if free is None or not total:
        raise MemoryUnknown(f"The driver does not say how much memory of {device} is free.")
    return DeviceMemory(free, total)
