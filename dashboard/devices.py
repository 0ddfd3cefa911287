"""The devices that a dashboard watches: their readings, how often they are read, and what is kept of them."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dashboard.rented import RentedReadings
from db.session import Database
from experiments.telemetry.collect import INTERVAL_S, MEASURED_INTERVAL_S
from experiments.telemetry.collector import Collector, Replay, Source
from experiments.telemetry.history import KEPT_S, DeviceHistory, History, is_stale
from experiments.telemetry.keeping import keep, kept
from experiments.telemetry.means import WINDOW_S, DeviceMean, joined, window_means, window_of
from experiments.telemetry.reading import DeviceKind, device_key
from experiments.telemetry.trace import RECORDED_HOST, Trace
from knowledge.queries.devices import on_devices

LOOK_S = 5.0
"""Seconds between looks at whether an experiment is measured here, and whether means are to be kept."""

KEEP_EVERY_S = 60.0
"""Seconds between means that are kept, of the window that is not over too: a machine that goes away at once
takes no more than these with it."""


@dataclass(frozen=True)
class Curves:
    """Ten minutes of a device's readings, as they were made once for everybody who looks.

    They stay true until the device is read again or the step that they end in is over: what `made_for` holds.
    """

    made_for: tuple[datetime, int]
    names: tuple[str, ...]
    series: tuple[tuple[float | None, ...], ...]
    sparks: tuple[tuple[str, ...], ...]


_log = logging.getLogger(__name__)


class Devices:
    """The readings of this machine and of the rented ones whose `runs` are copied here, or of a `trace` in
    their place; nothing is read before `run`."""

    def __init__(self, trace: Trace | None = None, runs: Path | None = None) -> None:
        self.history = History()
        self.trace = trace
        self.host = socket.gethostname() if trace is None else RECORDED_HOST
        self.interval_s = INTERVAL_S
        self._rented = None if runs is None or trace is not None else RentedReadings(runs)
        self.curves: dict[tuple[str, int], Curves] = {}
        self._begun: dict[tuple[str, datetime], DeviceMean] = {}

    @property
    def title(self) -> str | None:
        """What a page calls readings that are not those of now; None for those that are."""
        return None if self.trace is None else self.trace.title

    async def run(
        self, database: Database, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        """Sample, and keep the means of every window, until cancelled; then those of the last one.

        Means of a recording are not kept. A database that can't be written is tried again.
        """
        source: Source = Collector(self.history) if self.trace is None else Replay(self.history, self.trace)
        kept_at = clock()
        window = window_of(kept_at)
        try:
            await asyncio.to_thread(self.begin, database, window)
        except Exception as error:
            _log.warning("What was kept of the devices' last minutes could not be read: %s", error)
        source.start()
        try:
            while True:
                await asyncio.sleep(LOOK_S)
                try:
                    self.interval_s = await asyncio.to_thread(self.wanted_interval_s, database)
                    source.pace(self.interval_s)
                    await asyncio.to_thread(self.look_at_rented, database)
                    now = clock()
                    if self.trace is None and (now - kept_at).total_seconds() >= KEEP_EVERY_S:
                        window = await asyncio.to_thread(self.keep_since, database, window, now)
                        kept_at = now
                except Exception:
                    _log.exception("The means of the devices could not be kept; it is tried again.")
        finally:
            source.stop()
            if self.trace is None:
                try:
                    self.keep_since(database, window, clock())
                except Exception as error:
                    _log.warning("The last means of the devices could not be kept: %s", error)

    def fresh(self, now: datetime) -> tuple[DeviceHistory, ...]:
        """The devices whose newest reading is one of now."""
        return tuple(
            each
            for each in self.history.devices(now)
            if not is_stale((now - each.at).total_seconds(), self.interval_s)
        )

    def keep_since(self, database: Database, window: datetime, now: datetime) -> datetime:
        """Store the means of the windows from the one that began at `window` to that of now, as far as their
        readings are still here; returns the last, which is not over."""
        last = window_of(now)
        first = max(window, window_of(now - timedelta(seconds=KEPT_S)))
        for place in range((last - first) // timedelta(seconds=WINDOW_S) + 1):
            self.keep(database, first + timedelta(seconds=WINDOW_S) * place)
        return last

    def begin(self, database: Database, window: datetime) -> None:
        """Take in what others kept of the window that began then, before anything is read here: that of this
        machine's devices is added to it."""
        with database.read() as session:
            self._begun = {
                (mean.device, mean.started_at): mean
                for mean in kept(session, window)
                if mean.host == self.host
            }

    def keep(self, database: Database, window: datetime) -> None:
        """Store the means of the window that began then, of this machine's devices: those of rented ones are
        stored by their worker."""
        devices = self.history.devices(window + timedelta(seconds=WINDOW_S))
        means = window_means([each for each in devices if each.host == self.host], window)
        if means:
            with database.write() as session:
                keep(session, [self._with_begun(mean) for mean in means])

    def _with_begun(self, mean: DeviceMean) -> DeviceMean:
        begun = self._begun.get((mean.device, mean.started_at))
        return mean if begun is None else joined(begun, mean)

    def look_at_rented(self, database: Database) -> None:
        """Take in what was copied of rented machines since the last look."""
        if self._rented is not None:
            self._rented.look(database, self.history)

    def wanted_interval_s(self, database: Database) -> float:
        """Seconds between samples: more while these processors are measured."""
        with database.read() as session:
            measured = device_key(self.host, DeviceKind.CPU) in on_devices(session)
        return MEASURED_INTERVAL_S if measured else INTERVAL_S
