"""The devices of the server's machine as the tools answer them."""

from __future__ import annotations

from datetime import datetime

from dashboard.mcp.answers import Answer
from experiments.telemetry.collect import samples

LOOK_S = 1.0
"""Seconds that a look at devices takes: utilization is that between two readings."""


class Device(Answer):
    """A device of the server's machine now; None is what it does not report."""

    name: str
    model: str
    utilization_percent: float | None
    memory_used_bytes: int | None
    memory_total_bytes: int | None
    power_w: float | None
    temperature_c: float | None
    clock_mhz: float | None
    throttled_by: tuple[str, ...] | None


class DevicesAnswer(Answer):
    """The devices of the machine that this server runs on."""

    at: datetime
    devices: tuple[Device, ...]
    note: str | None


def devices() -> DevicesAnswer:
    """The devices of this machine now; takes a second."""
    *_, sample = samples(LOOK_S)
    return DevicesAnswer(
        at=sample.at,
        devices=tuple(
            Device(
                name=each.name,
                model=each.model,
                utilization_percent=each.utilization_percent,
                memory_used_bytes=each.memory_used_bytes,
                memory_total_bytes=each.memory_total_bytes,
                power_w=each.power_w,
                temperature_c=each.temperature_c,
                clock_mhz=each.clock_mhz,
                throttled_by=each.throttle,
            )
            for each in sample.devices
        ),
        note=sample.note,
    )
