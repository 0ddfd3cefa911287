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
from experiments.telemetry.history import DeviceHistory, History, is_stale
from experiments.telemetry.keeping import keep
from experiments.telemetry.means import WINDOW_S, window_means, window_of
from experiments.telemetry.reading import DeviceKind, device_key
from experiments.telemetry.trace import RECORDED_HOST, Trace
from knowledge.queries.devices import on_devices

LOOK_S = 5.0
"""Seconds between looks at whether an experiment is measured here, and whether a window is over."""


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

    @property
    def title(self) -> str | None:
        """What a page calls readings that are not those of now; None for those that are."""
        return None if self.trace is None else self.trace.title

    async def run(
        self, database: Database, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        """Sample, and keep the means of every window that is over, until cancelled.

        Means of a recording are not kept. A database that can't be written is tried again.
        """
        source: Source = Collector(self.history) if self.trace is None else Replay(self.history, self.trace)
        source.start()
        window = window_of(clock())
        try:
            while True:
                await asyncio.sleep(LOOK_S)
                try:
                    self.interval_s = await asyncio.to_thread(self.wanted_interval_s, database)
                    source.pace(self.interval_s)
                    await asyncio.to_thread(self.look_at_rented, database)
                    if self.trace is None and window_of(clock()) > window:
                        await asyncio.to_thread(self.keep, database, window)
                        window = window_of(clock())
                except Exception:
                    _log.exception("The means of the devices could not be kept; it is tried again.")
        finally:
            source.stop()

    def fresh(self, now: datetime) -> tuple[DeviceHistory, ...]:
        """The devices whose newest reading is one of now."""
        return tuple(
            each
            for each in self.history.devices(now)
            if not is_stale((now - each.at).total_seconds(), self.interval_s)
        )

    def keep(self, database: Database, window: datetime) -> None:
        """Store the means of the window that began then, of this machine's devices: those of rented ones are
        stored by their worker."""
        devices = self.history.devices(window + timedelta(seconds=WINDOW_S))
        means = window_means([each for each in devices if each.host == self.host], window)
        if means:
            with database.write() as session:
                keep(session, means)

    def look_at_rented(self, database: Database) -> None:
        """Take in what was copied of rented machines since the last look."""
        if self._rented is not None:
            self._rented.look(database, self.history)

    def wanted_interval_s(self, database: Database) -> float:
        """Seconds between samples: more while these processors are measured."""
        with database.read() as session:
            measured = device_key(self.host, DeviceKind.CPU) in on_devices(session)
        return MEASURED_INTERVAL_S if measured else INTERVAL_S
