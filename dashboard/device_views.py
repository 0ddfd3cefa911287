"""A device as pages show it: readings with units and ten minutes of each, age, what runs on it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from dashboard.charts.sparkline import polylines
from dashboard.devices import Curves, Devices
from dashboard.rented import LATE_S, RentedFrom, rented_from
from experiments.telemetry.history import KEPT_S, DeviceHistory, is_stale, means_of
from experiments.telemetry.reading import DeviceKind, DeviceReading
from experiments.telemetry.trace import RECORDED_HOST
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
    """A device; `place` is where it is in words, `age_s` how old its newest reading, None for never read;
    `rented` is of whom, None for what is not rented."""

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
    rented: RentedFrom | None = None

    def reading(self, name: str) -> ReadingView | None:
        """The reading of that name, if the device could have it."""
        return next((each for each in self.readings if each.name == name), None)


def device_views(
    devices: Devices, running: dict[str, OnDevice], now: datetime, step_s: int = STEP_S
) -> tuple[DeviceView, ...]:
    """All devices that were read, those of this machine first."""
    found = [
        _view(devices, device, running.get(device.key), now, step_s)
        for device in devices.history.devices(now)
    ]
    return tuple(sorted(found, key=lambda each: not each.local))


def remote_view(job: OnDevice) -> DeviceView:
    """A device that a job runs on and whose readings do not come here, or have not come yet."""
    host, _, name = job.device.partition("/")
    rented = rented_from(host)
    if rented is not None:
        name = DeviceKind.CPU if rented.asked == DeviceKind.CPU else rented.asked.removesuffix("!")
    kind = DeviceKind.CPU if name == DeviceKind.CPU else DeviceKind.MIG if "/mig:" in name else DeviceKind.GPU
    return DeviceView(
        id=job.device,
        slug=_slug(job.device),
        host=host,
        local=False,
        kind=kind,
        model=name,
        place=host if rented is None else _rented_place(rented, job.device.partition("/")[2]),
        at=None,
        age_s=None,
        stale=False,
        readings=(),
        throttle=None,
        processes=None,
        on=job,
        rented=rented,
    )


def _view(
    devices: Devices, device: DeviceHistory, on: OnDevice | None, now: datetime, step_s: int
) -> DeviceView:
    local = device.host == devices.host
    latest = device.latest
    age_s = max(0.0, (now - device.at).total_seconds())
    curves = _curves(devices, device, now, step_s)
    rented = None if local else rented_from(device.host, got_words(latest))
    return DeviceView(
        id=device.key,
        slug=_slug(device.key),
        host=device.host,
        local=local,
        kind=latest.kind,
        model=latest.model,
        place=_place(device, local) if rented is None else _rented_place(rented, latest.name),
        at=device.at,
        age_s=age_s,
        stale=is_stale(age_s, devices.interval_s if rented is None else LATE_S),
        readings=_readings(latest, curves),
        throttle=latest.throttle,
        processes=None
        if latest.processes is None
        else tuple(
            ProcessView(pid=each.pid, name=each.name, memory_gib=_scaled(each.memory_bytes, GIB))
            for each in latest.processes
        ),
        on=on,
        rented=rented,
    )


def got_words(told: DeviceReading) -> str:
    """What the driver told of a GPU, as it is asked for."""
    total = told.memory_total_bytes
    return told.model if total is None else f"{told.model} with {total / 1e9:.0f} GB"


def _rented_place(rented: RentedFrom, job: str) -> str:
    return f"{rented.provider}, {job}"


def _never_told(device: DeviceHistory, shown: _Shown) -> bool:
    """A host that has no sensor is no host whose sensor is silent: its temperature is left out."""
    return (
        device.latest.kind is DeviceKind.CPU
        and shown.name == "temperature"
        and all(reading.temperature_c is None for _, reading in device.moments)
    )


def _curves(devices: Devices, device: DeviceHistory, now: datetime, step_s: int) -> Curves:
    """What is drawn of a device, from the ten minutes that are kept or as it was made before."""
    made_for = (device.at, int(now.timestamp()) // step_s)
    known = devices.curves.get((device.key, step_s))
    if known is not None and known.made_for == made_for:
        return known
    latest = device.latest
    shown = [each for each in _SHOWN if each.name in _OF_KIND[latest.kind] and not _never_told(device, each)]
    steps = means_of(device.moments, [each.field for each in shown], now, step_s, KEPT_S // step_s)
    series = [
        tuple(_scaled(value, each.scale) for value in means) for each, means in zip(shown, steps, strict=True)
    ]
    found = Curves(
        made_for,
        tuple(each.name for each in shown),
        tuple(series),
        tuple(
            polylines(values, each.low, _limit(latest, each) or each.high)
            for each, values in zip(shown, series, strict=True)
        ),
    )
    devices.curves[device.key, step_s] = found
    return found


def _readings(latest: DeviceReading, curves: Curves) -> tuple[ReadingView, ...]:
    shown = {each.name: each for each in _SHOWN}
    return tuple(
        ReadingView(
            name=name,
            label=shown[name].label,
            unit=shown[name].unit,
            value=_scaled(getattr(latest, shown[name].field), shown[name].scale),
            of=_limit(latest, shown[name]),
            series=series,
            spark=spark,
        )
        for name, series, spark in zip(curves.names, curves.series, curves.sparks, strict=True)
    )


def _limit(latest: DeviceReading, shown: _Shown) -> float | None:
    return None if shown.of is None else _scaled(getattr(latest, shown.of), shown.scale)


def _scaled(value: float | None, scale: float) -> float | None:
    return None if value is None else round(value / scale, 3)


def _place(device: DeviceHistory, local: bool) -> str:
    recorded = device.host == RECORDED_HOST
    where = "the recorded machine" if recorded else "this machine" if local else device.host
    name = device.latest.name
    if device.latest.kind is DeviceKind.CPU:
        return where
    gpu, _, instance = name.partition("/mig:")
    number = gpu.partition(":")[2]
    return f"{where}, GPU {number}" + (f", instance {instance}" if instance else "")


def _slug(key: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", key)
