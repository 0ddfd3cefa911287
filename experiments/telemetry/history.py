"""The last ten minutes of every device, in memory; written by one thread and read by others."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter
from threading import Lock

from experiments.telemetry.reading import DeviceReading, Sample, device_key

KEPT_S = 600
"""How long a reading is kept, in seconds."""

STALE_AFTER_S = 3.0
"""Age of a device's newest reading, beyond the interval, from which it counts as stale, in seconds."""

FORGOTTEN_AFTER_S = 3600.0
"""Age from which a device that says nothing is no longer shown, in seconds."""

Moment = tuple[datetime, DeviceReading]


@dataclass(frozen=True)
class DeviceHistory:
    """A device with its readings of the last ten minutes, oldest first; at least one, however old."""

    host: str
    moments: tuple[Moment, ...]

    @property
    def key(self) -> str:
        """The device as it is unique among hosts."""
        return device_key(self.host, self.latest.name)

    @property
    def at(self) -> datetime:
        """When it was read last."""
        return self.moments[-1][0]

    @property
    def latest(self) -> DeviceReading:
        """Its newest reading."""
        return self.moments[-1][1]


class History:
    """What was sampled; any number of hosts, each with its devices in the order of its newest sample."""

    def __init__(self, kept_s: float = KEPT_S) -> None:
        self._kept = timedelta(seconds=kept_s)
        self._devices: dict[str, tuple[str, deque[Moment]]] = {}
        self._notes: dict[str, str | None] = {}
        self._lock = Lock()

    def add(self, sample: Sample) -> None:
        """Take a sample; one that is older than what is known of its devices is passed over."""
        with self._lock:
            self._notes[sample.host] = sample.note
            for reading in sample.devices:
                key = device_key(sample.host, reading.name)
                _, moments = self._devices.setdefault(key, (sample.host, deque()))
                if moments and moments[-1][0] >= sample.at:
                    continue
                moments.append((sample.at, reading))
                while moments[0][0] <= sample.at - self._kept:
                    moments.popleft()

    def devices(self, now: datetime) -> tuple[DeviceHistory, ...]:
        """All devices that said something within the hour, hosts and devices by name.

        A device that stopped stays, with the readings it had.
        """
        limit = now - timedelta(seconds=FORGOTTEN_AFTER_S)
        with self._lock:
            for key in [key for key, (_, moments) in self._devices.items() if moments[-1][0] < limit]:
                del self._devices[key]
            found = [DeviceHistory(host, tuple(moments)) for host, moments in self._devices.values()]
        return tuple(sorted(found, key=lambda each: (each.host, _place(each.latest.name))))

    def forget(self, key: str) -> None:
        """Drop a device, and those that are parts of it: it is there no more."""
        with self._lock:
            for each in [each for each in self._devices if each == key or each.startswith(f"{key}/")]:
                del self._devices[each]

    def note(self, host: str) -> str | None:
        """Why a host's newest sample has no GPU, in a sentence; None where it has one or said nothing."""
        with self._lock:
            return self._notes.get(host)


def _place(name: str) -> tuple[str | int, ...]:
    """`cuda:10` after `cuda:9`, instances after their GPU, the host last."""
    kind, *numbers = name.replace("/", ":").split(":")
    return ("~" if kind == "cpu" else kind, *(int(each) for each in numbers if each.isdigit()))


def is_stale(age_s: float, interval_s: float) -> bool:
    """Whether readings this old, sampled every so often, can't be called those of now."""
    return age_s > interval_s + STALE_AFTER_S


def means_of(
    moments: Sequence[Moment], readings: Sequence[str], end: datetime, step_s: int, count: int
) -> tuple[tuple[float | None, ...], ...]:
    """Each reading averaged over steps of `step_s` seconds, oldest first; None for a step without any.

    Steps lie at whole multiples of `step_s` since 1970, so that a step that is over never changes again; the
    last of the `count` is the one that `end` lies in.
    """
    first = int(end.timestamp()) // step_s - count + 1
    steps: list[list[DeviceReading]] = [[] for _ in range(count)]
    for at, device in moments:
        place = int(at.timestamp()) // step_s - first
        if 0 <= place < count:
            steps[place].append(device)
    return tuple(tuple(_mean_of(step, attrgetter(name)) for step in steps) for name in readings)


def _mean_of(
    step: Sequence[DeviceReading], value_of: Callable[[DeviceReading], float | None]
) -> float | None:
    values = [value for value in map(value_of, step) if value is not None]
    return sum(values) / len(values) if values else None
