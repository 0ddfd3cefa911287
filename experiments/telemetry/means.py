"""Five-minute means of what devices did: what is kept longer than ten minutes, in the database."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from experiments.telemetry.history import DeviceHistory, Moment

WINDOW_S = 300
"""Seconds that a mean is of."""

_MEANT = ("utilization_percent", "memory_used_bytes", "power_w", "temperature_c", "clock_mhz")


@dataclass(frozen=True)
class DeviceMean:
    """Means of a device's readings over a window; `samples` of them, fewer than asked for where some lack.

    `throttled_share` is the share of samples with a reason for throttling, of those that tell.
    """

    host: str
    device: str
    model: str
    started_at: datetime
    samples: int
    utilization_percent: float | None
    memory_used_bytes: float | None
    power_w: float | None
    temperature_c: float | None
    clock_mhz: float | None
    throttled_share: float | None


def window_of(at: datetime) -> datetime:
    """The start of the window that an instant lies in: windows begin at whole five minutes of the hour."""
    return datetime.fromtimestamp(at.timestamp() // WINDOW_S * WINDOW_S, UTC)


def window_means(devices: Iterable[DeviceHistory], started_at: datetime) -> tuple[DeviceMean, ...]:
    """The means of the window that began then; none for a device without a sample in it."""
    end = started_at + timedelta(seconds=WINDOW_S)
    found = []
    for device in devices:
        within = [moment for moment in device.moments if started_at <= moment[0] < end]
        if within:
            found.append(_mean(device, within, started_at))
    return tuple(found)


def _mean(device: DeviceHistory, within: Sequence[Moment], started_at: datetime) -> DeviceMean:
    told = [reading.throttle for _, reading in within if reading.throttle is not None]
    values = {
        name: _average([value for _, reading in within if (value := getattr(reading, name)) is not None])
        for name in _MEANT
    }
    return DeviceMean(
        host=device.host,
        device=device.latest.name,
        model=device.latest.model,
        started_at=started_at,
        samples=len(within),
        throttled_share=_average([float(bool(reasons)) for reasons in told]),
        **values,
    )


def _average(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
