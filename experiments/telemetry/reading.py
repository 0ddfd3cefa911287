"""A reading of a device at a moment. Whatever was not reported is None; a reading never guesses."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class DeviceKind(StrEnum):
    """What a device is; `cpu` stands for the host: its processors and its memory."""

    CPU = "cpu"
    GPU = "gpu"
    MIG = "mig"
    """An instance of a GPU that is divided (multi-instance GPU)."""


@dataclass(frozen=True)
class ProcessReading:
    """A process that computes on a GPU; `name` has no path and no arguments."""

    pid: int
    name: str | None
    memory_bytes: int | None


@dataclass(frozen=True)
class DeviceReading:
    """A device at a moment.

    `name` is its place on its host, as jobs name it (`cpu`, `cuda:0`, `cuda:0/mig:1`); `model` what it is
    (`NVIDIA H200`). `throttle` are the reasons in words why its clocks are held down, empty for none.
    `processes` are those that compute on it. `utilization_percent` of a CPU is of all its cores together.
    """

    name: str
    kind: DeviceKind
    model: str
    utilization_percent: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature_c: float | None = None
    clock_mhz: float | None = None
    clock_max_mhz: float | None = None
    throttle: tuple[str, ...] | None = None
    processes: tuple[ProcessReading, ...] | None = None


@dataclass(frozen=True)
class Sample:
    """Every device of a host at a moment; `note` says in a sentence why there is no GPU among them."""

    at: datetime
    host: str
    devices: tuple[DeviceReading, ...]
    note: str | None = None


def device_key(host: str, name: str) -> str:
    """A device as it is unique among hosts, as jobs name it: `desk/cuda:0`."""
    return f"{host}/{name}"
