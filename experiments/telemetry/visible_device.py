"""The driver's handle of a CUDA device, counted as a process started from here counts devices."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from experiments.telemetry.driver import Driver

VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"
"""CUDA's list of the devices that a process sees, by number or by identifier, which numbers them anew."""


class NotVisible(Exception):
    """There is no such device for a process started from here; the message says why, in a sentence."""


def visible_handle(driver: Driver, device: str, environment: Mapping[str, str] = os.environ) -> Any:
    """The handle of `cuda:N` (`cuda` is the first).

    Numbers are the driver's, so those of `CUDA_DEVICE_ORDER=PCI_BUS_ID`. Raises `NotVisible`.
    """
    number, visible = int(device.partition(":")[2] or 0), environment.get(VISIBLE_DEVICES)
    handle = _by_place(driver, device, number, visible)
    if handle is None:
        raise NotVisible(f"The driver shows no {device}.")
    return handle


def visible_count(driver: Driver, environment: Mapping[str, str] = os.environ) -> int:
    """How many devices a process started from here sees."""
    visible = environment.get(VISIBLE_DEVICES)
    return driver.number("DeviceGetCount") or 0 if visible is None else len(_names(visible))


def is_divided(driver: Driver, handle: Any) -> bool:
    """Whether the device is divided into instances (MIG) now."""
    mode = driver.ask("DeviceGetMigMode", handle)  # now, and after the next reset
    return isinstance(mode, tuple | list) and bool(mode) and mode[0] == 1


def _by_place(driver: Driver, device: str, number: int, visible: str | None) -> Any:
    if visible is None:
        return driver.ask("DeviceGetHandleByIndex", number)
    names = _names(visible)
    if number >= len(names):
        raise NotVisible(f"{VISIBLE_DEVICES} lets a process see {len(names)} devices, and no {device}.")
    name = names[number]
    if name.isdigit():
        return driver.ask("DeviceGetHandleByIndex", int(name))
    return driver.ask("DeviceGetHandleByUUID", name)


def _names(visible: str) -> list[str]:
    return [name.strip() for name in visible.split(",") if name.strip()]
