"""What the kernel's log says of a GPU's faults: NVIDIA's driver writes each as an Xid with a number.

The log is only readable with rights that a user often lacks; then nothing is known from it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from experiments.telemetry.driver import Driver, NoDriver, open_driver
from experiments.telemetry.visible_device import NotVisible, visible_handle

_XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+)")

DEVICE_XIDS = frozenset({48, 62, 63, 64, 74, 79, 94, 95, 119, 120, 121, 140, 143, 154})
"""Xids of the device itself: memory errors that can't be corrected, the bus, its own processor. Others, such
as 13, 31 and 43, are faults of what ran. Source: NVIDIA's catalogue of Xid errors."""

KERNEL_LOG = "/dev/kmsg"

_RECORD_BYTES = 8192


def xids_of(
    device: str,
    read: Callable[[], list[str] | None] | None = None,
    open_library: Callable[[], Driver] = open_driver,
    environment: Mapping[str, str] = os.environ,
) -> tuple[int, ...]:
    """The Xids of `cuda:N` itself since the machine started; none where nothing can be known of them."""
    lines = (read or kernel_lines)()
    if not lines:
        return ()
    try:
        driver = open_library()
    except NoDriver:
        return ()
    try:
        place = driver.ask("DeviceGetPciInfo", visible_handle(driver, device, environment))
    except NotVisible:
        return ()
    finally:
        driver.close()
    bus_id = getattr(place, "busId", None)
    if isinstance(bus_id, bytes):
        bus_id = bus_id.decode(errors="replace")
    return device_xids(lines, bus_id) if isinstance(bus_id, str) and bus_id else ()


def device_xids(lines: Iterable[str], bus_id: str) -> tuple[int, ...]:
    """The numbers of the Xids of the device itself that the lines tell of the device at `bus_id`
    (`00000000:3B:00.0`, as NVML names it), in their order. Pure."""
    wanted = _place(bus_id)
    found = (_XID.search(line) for line in lines)
    numbers = [int(each[2]) for each in found if each is not None and _place(each[1]) == wanted]
    return tuple(number for number in numbers if number in DEVICE_XIDS)


def kernel_lines() -> list[str] | None:
    """The lines of the kernel's log; None where they can't be read."""
    lines: list[str] = []
    try:
        log = os.open(KERNEL_LOG, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        while True:
            with suppress(BrokenPipeError):  # a record was overwritten meanwhile; the next one follows
                record = os.read(log, _RECORD_BYTES)
                if not record:
                    return lines
                lines.append(record.decode(errors="replace"))
    except BlockingIOError:  # no more records
        return lines
    except OSError:
        return None
    finally:
        os.close(log)


def _place(bus_id: str) -> tuple[int, ...]:
    """Domain, bus and device; the kernel writes four digits of the domain and no function, NVML eight and
    one."""
    return tuple(int(part, 16) for part in bus_id.partition(".")[0].split(":"))
