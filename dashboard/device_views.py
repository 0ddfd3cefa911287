"""A device as pages show it: readings with units and ten minutes of each, age, what runs on it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from dashboard.charts.sparkline import polylines
from dashboard.devices import Devices
from experiments.telemetry.history import KEPT_S, DeviceHistory, is_stale, means_of
from experiments.telemetry.reading import DeviceKind
from knowledge.queries.devices import OnDevice
from knowledge.queries.view import View

GIB = 2**30
STEP_S = 10
"""Seconds that a step of a sparkline averages, where nothing else is asked for."""


@dataclass(frozen=True)
class _Shown:
    """A reading: where it stands, its unit, and what its sparkline reaches from and to."""

    name: str
    label: str
    field: str
    unit: str
    scale: float
    of: str | None
    low: float
    high: float


_SHOWN = (
    _Shown("utilization", "Utilization", "utilization_percent", "%", 1, None, 0, 100),
    _Shown("memory", "Memory", "memory_used_bytes", "GiB", GIB, "memory_total_bytes", 0, 1),
    _Shown("power", "Power", "power_w", "W", 1, "power_limit_w", 0, 1000),
    _Shown("temperature", "Temperature", "temperature_c", "°C", 1, None, 20, 100),
    _Shown("clock", "Clock", "clock_mhz", "MHz", 1, "clock_max_mhz", 0, 3000),
)

_OF_KIND = {
    DeviceKind.GPU: ("utilization", "memory", "power", "temperature", "clock"),
    DeviceKind.MIG: ("utilization", "memory"),
    DeviceKind.CPU: ("utilization", "memory", "temperature"),
}
"""What a device of each kind could report."""


class ReadingView(View):
    """One reading: `value` of at most `of`, in `unit`; None where it is not reported.

    `series` has the means of ten minutes in steps, oldest first, None for a step without a reading; `spark`
    the same as points of polylines.
    """

    name: str
    label: str
    unit: str
    value: float | None
    of: float | None
    series: tuple[float | None, ...]
    spark: tuple[str, ...]


class ProcessView(View):
    """A process that computes on a GPU, as the driver tells."""

    pid: int
    name: str | None
    memory_gib: float | None


class DeviceView(View):
    """A device; `place` is where it is in words, `age_s` how old its newest reading, None for never read."""

    id: str
    slug: str
    host: str
    local: bool
    kind: DeviceKind
    model: str
    place: str
    at: datetime | None
    age_s: float | None
    stale: bool
    readings: tuple[ReadingView, ...]
    throttle: tuple[str, ...] | None
    processes: tuple[ProcessView, ...] | None
    on: OnDevice | None

    def reading(self, name: str) -> ReadingView | None:
        """The reading of that name, if the device could have it."""
        return next((each for each in self.readings if each.name == name), None)


def device_views(
    devices: Devices, running: dict[str, OnDevice], now: datetime, step_s: int = STEP_S
) -> tuple[DeviceView, ...]:
    """All devices that were read, those of this machine first."""
    found = [
        _view(device, device.host == devices.host, running.get(device.key), devices.interval_s, now, step_s)
        for device in devices.history.devices(now)
    ]
    return tuple(sorted(found, key=lambda each: not each.local))


def remote_view(job: OnDevice) -> DeviceView:
    """A device that a job runs on and whose readings do not come here."""
    host, _, name = job.device.partition("/")
    kind = DeviceKind.CPU if name == DeviceKind.CPU else DeviceKind.MIG if "/mig:" in name else DeviceKind.GPU
    return DeviceView(
        id=job.device,
        slug=_slug(job.device),
        host=host,
        local=False,
        kind=kind,
        model=name,
        place=host,
        at=None,
        age_s=None,
        stale=False,
        readings=(),
        throttle=None,
        processes=None,
        on=job,
    )


def _view(
    device: DeviceHistory, local: bool, on: OnDevice | None, interval_s: float, now: datetime, step_s: int
) -> DeviceView:
    latest = device.latest
    age_s = max(0.0, (now - device.at).total_seconds())
    return DeviceView(
        id=device.key,
        slug=_slug(device.key),
        host=device.host,
        local=local,
        kind=latest.kind,
        model=latest.model,
        place=_place(device, local),
        at=device.at,
        age_s=age_s,
        stale=is_stale(age_s, interval_s),
        readings=tuple(
            _reading(device, shown, now, step_s)
            for shown in _SHOWN
            if shown.name in _OF_KIND[latest.kind] and not _never_told(device, shown)
        ),
        throttle=latest.throttle,
        processes=None
        if latest.processes is None
        else tuple(
            ProcessView(pid=each.pid, name=each.name, memory_gib=_scaled(each.memory_bytes, GIB))
            for each in latest.processes
        ),
        on=on,
    )


def _never_told(device: DeviceHistory, shown: _Shown) -> bool:
    """A host that has no sensor is no host whose sensor is silent: its temperature is left out."""
    return (
        device.latest.kind is DeviceKind.CPU
        and shown.name == "temperature"
        and all(reading.temperature_c is None for _, reading in device.moments)
    )


def _reading(device: DeviceHistory, shown: _Shown, now: datetime, step_s: int) -> ReadingView:
    of = None if shown.of is None else _scaled(getattr(device.latest, shown.of), shown.scale)
    steps = means_of(device.moments, shown.field, now, step_s, KEPT_S // step_s)
    series = tuple(_scaled(value, shown.scale) for value in steps)
    return ReadingView(
        name=shown.name,
        label=shown.label,
        unit=shown.unit,
        value=_scaled(getattr(device.latest, shown.field), shown.scale),
        of=of,
        series=series,
        spark=polylines(series, shown.low, of or shown.high),
    )


def _scaled(value: float | None, scale: float) -> float | None:
    return None if value is None else round(value / scale, 3)


def _place(device: DeviceHistory, local: bool) -> str:
    where = "this machine" if local else device.host
    name = device.latest.name
    if device.latest.kind is DeviceKind.CPU:
        return where
    gpu, _, instance = name.partition("/mig:")
    number = gpu.partition(":")[2]
    return f"{where}, GPU {number}" + (f", instance {instance}" if instance else "")


def _slug(key: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", key)
