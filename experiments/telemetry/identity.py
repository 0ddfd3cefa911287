"""What a CUDA device is, by the driver: asked once before anything is measured on it.

No serial number is read, and a campaign keeps no identifier of the card: it says what it was measured on, not
whose. The UUID is for tables alone (`card_uuid`), which are gone on with on other cards of the same kind.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from experiments.telemetry.driver import Driver, NoDriver, as_number, open_driver
from experiments.telemetry.visible_device import NotVisible, is_divided, visible_count, visible_handle

GB = 1e9

BUSY_SHARE = 0.05
"""The share of a GPU's memory from which on it is said to be in use: a driver alone takes less."""


class NoSuchDevice(Exception):
    """There is no such device here, or it can't be measured; the message says why, in a sentence."""


@dataclass(frozen=True)
class DeviceIdentity:
    """A GPU as its driver describes it; `free_bytes` is of now, None is what the driver does not say."""

    name: str
    memory_bytes: int
    free_bytes: int | None = None
    compute_capability: str | None = None
    driver: str | None = None
    cuda_driver: int | None = None

    @property
    def target_key(self) -> str:
        """How a target with this GPU is named where measurements are kept: `cuda:NVIDIA H200:151 GB`."""
        return f"cuda:{self.name}:{self.memory_bytes / GB:.0f} GB"


def identify(
    device: str,
    open_library: Callable[[], Driver] = open_driver,
    environment: Mapping[str, str] = os.environ,
) -> DeviceIdentity:
    """The device that a process started from here calls `cuda:N`.

    Raises `NoSuchDevice` where there is no driver or no such device, where the driver does not say what it
    is, and for one that is divided, of which an instance would have to be named.
    """
    try:
        driver = open_library()
    except NoDriver as reason:
        raise NoSuchDevice(str(reason)) from None
    try:
        return _identity(driver, visible_handle(driver, device, environment), device)
    except NotVisible as reason:
        raise NoSuchDevice(str(reason)) from None
    finally:
        driver.close()


def card_uuid(
    device: str,
    open_library: Callable[[], Driver] = open_driver,
    environment: Mapping[str, str] = os.environ,
) -> str | None:
    """The driver's UUID of the GPU that a process started from here calls `cuda:N`, the same on every day and
    under every number; None where nobody tells it."""
    try:
        driver = open_library()
    except NoDriver:
        return None
    try:
        return driver.text("DeviceGetUUID", visible_handle(driver, device, environment))
    except NotVisible:
        return None
    finally:
        driver.close()


def cuda_devices(
    open_library: Callable[[], Driver] = open_driver, environment: Mapping[str, str] = os.environ
) -> tuple[str, ...]:
    """The CUDA devices that a process started from here sees, as `cuda:N`; none where there is no driver."""
    try:
        driver = open_library()
    except NoDriver:
        return ()
    try:
        return tuple(f"cuda:{number}" for number in range(visible_count(driver, environment)))
    finally:
        driver.close()


def _identity(driver: Driver, handle: Any, device: str) -> DeviceIdentity:
    if is_divided(driver, handle):
        raise NoSuchDevice(f"{device} is divided, and which instance of it a launch gets is not known.")
    memory = driver.ask("DeviceGetMemoryInfo", handle)
    total = as_number(getattr(memory, "total", None))
    if not total:
        raise NoSuchDevice(f"The driver does not say how much memory {device} has.")
    return DeviceIdentity(
        name=driver.text("DeviceGetName", handle) or "NVIDIA GPU",
        memory_bytes=total,
        free_bytes=as_number(getattr(memory, "free", None)),
        compute_capability=_capability(driver.ask("DeviceGetCudaComputeCapability", handle)),
        driver=driver.text("SystemGetDriverVersion"),
        cuda_driver=driver.number("SystemGetCudaDriverVersion"),
    )


def _capability(answer: Any) -> str | None:
    """`9.0` for the pair that the library gives."""
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        return None
    major, minor = (as_number(each) for each in answer)
    return None if major is None or minor is None else f"{major}.{minor}"
