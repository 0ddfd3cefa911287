"""Five-minute means of what devices did: what is kept longer than ten minutes, in the database."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from experiments.telemetry.collect import INTERVAL_S, MEASURED_INTERVAL_S
from experiments.telemetry.history import DeviceHistory, Moment
from experiments.telemetry.reading import DeviceReading

WINDOW_S = 300
"""Seconds that a mean is of."""

STANDS_AT_MOST_S = MEASURED_INTERVAL_S + 1.0
"""Seconds that a reading stands for at most: the longest interval, and what a busy machine adds to it."""

_MEANT = ("utilization_percent", "memory_used_bytes", "power_w", "temperature_c", "clock_mhz")


@dataclass(frozen=True)
class DeviceMean:
    """Means of a device's readings over a window; `samples` of them, fewer than asked for where some lack.

    The interval may change within a window: a reading has the weight of the time since the one before it, up
    to `STANDS_AT_MOST_S`. `read_s` is the sum of these, at most the window; None of means that were kept
    before it was. `throttled_share` is the share with a reason for throttling, of those that tell.
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
    read_s: float | None = None

    @property
    def least_read_s(self) -> float:
        """For how many seconds its readings stand, at least where that was not kept."""
        return self.samples * INTERVAL_S if self.read_s is None else self.read_s


def window_of(at: datetime) -> datetime:
    """The start of the window that an instant lies in: windows begin at whole five minutes of the hour."""
    return datetime.fromtimestamp(at.timestamp() // WINDOW_S * WINDOW_S, UTC)


def window_means(devices: Iterable[DeviceHistory], started_at: datetime) -> tuple[DeviceMean, ...]:
    """The means of the window that began then; none for a device without a sample in it."""
    end = started_at + timedelta(seconds=WINDOW_S)
    found = []
    for device in devices:
        within = [each for each in _weighted(device.moments) if started_at <= each.at < end]
        if within:
            found.append(_mean(device, within, started_at))
    return tuple(found)


def joined(earlier: DeviceMean, later: DeviceMean) -> DeviceMean:
    """Means of two parts of a window, which share no reading, as one: each has the weight of its seconds."""
    parts = (earlier, later)
    values = {
        name: _average(
            [(value, each.least_read_s) for each in parts if (value := getattr(each, name)) is not None]
        )
        for name in (*_MEANT, "throttled_share")
    }
    return DeviceMean(
        host=later.host,
        device=later.device,
        model=later.model,
        started_at=later.started_at,
        samples=sum(each.samples for each in parts),
        read_s=min(sum(each.least_read_s for each in parts), float(WINDOW_S)),
        **values,
    )


@dataclass(frozen=True)
class _Weighted:
    """A reading and for how many seconds it stands."""

    at: datetime
    reading: DeviceReading
    seconds: float


def _weighted(moments: Sequence[Moment]) -> list[_Weighted]:
    """Readings, oldest first, with their weights; the first has that of the second, for what was before it is
    not known."""
    since = [(later - earlier).total_seconds() for (earlier, _), (later, _) in pairwise(moments)]
    return [
        _Weighted(at, reading, min(seconds, STANDS_AT_MOST_S))
        for (at, reading), seconds in zip(moments, [*since[:1], *since] or [INTERVAL_S], strict=True)
    ]


def _mean(device: DeviceHistory, within: Sequence[_Weighted], started_at: datetime) -> DeviceMean:
    told = [
        (float(bool(each.reading.throttle)), each.seconds)
        for each in within
        if each.reading.throttle is not None
    ]
    values = {
        name: _average(
            [(value, each.seconds) for each in within if (value := getattr(each.reading, name)) is not None]
        )
        for name in _MEANT
    }
    return DeviceMean(
        host=device.host,
        device=device.latest.name,
        model=device.latest.model,
        started_at=started_at,
        samples=len(within),
        throttled_share=_average(told),
        read_s=min(sum(each.seconds for each in within), float(WINDOW_S)),
        **values,
    )


def _average(values: Sequence[tuple[float, float]]) -> float | None:
    """The mean of values with their weights."""
    return (
        sum(value * weight for value, weight in values) / sum(weight for _, weight in values)
        if values
        else None
    )
