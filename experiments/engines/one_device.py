"""How a process is started so that it sees one device alone, whatever others the machine has.

A library that asks every GPU it sees how much memory is free opens a context on each of them, and a job that
measures on another one is not alone there any more. And where nothing else is said PyTorch counts the fastest
GPU first, while targets are counted as the driver counts, by the bus.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from experiments.engines.port import Infeasible
from experiments.telemetry.visible_device import VISIBLE_DEVICES

CPU = "cpu"

ORDER = "CUDA_DEVICE_ORDER"


def one_device(device: str, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Variables of a process that sees `device` (`cpu`, `cuda:1` …) alone; there it is `seen_as` that.

    A process for `cpu` sees no GPU. Raises `Infeasible`, kind `unsupported`, where `environment` shows
    fewer devices than that.
    """
    if device == CPU:
        return {VISIBLE_DEVICES: ""}
    return {ORDER: environment.get(ORDER, "PCI_BUS_ID"), VISIBLE_DEVICES: visible_device(device, environment)}


def seen_as(device: str) -> str:
    """What a device is called in a process that sees it alone."""
    return CPU if device == CPU else "cuda:0"


def visible_device(device: str, environment: Mapping[str, str] = os.environ) -> str:
    """What `CUDA_VISIBLE_DEVICES` must be for `cuda:N` to be all that is seen: the N-th of those visible."""
    number = int(device.partition(":")[2] or 0)
    visible = environment.get(VISIBLE_DEVICES)
    if visible is None:
        return str(number)
    listed = [each.strip() for each in visible.split(",") if each.strip()]
    if number >= len(listed):
        raise Infeasible(
            "unsupported", f"There is no device {device}: {VISIBLE_DEVICES} shows {len(listed)} of them."
        )
    return listed[number]
