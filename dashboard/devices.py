"""The devices that a dashboard watches: their readings, how often they are read, and what is kept of them."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from dashboard.rented import RUNS, RentedReadings
from db.session import Database
from experiments.telemetry.collector import Replay
from experiments.telemetry.history import DeviceHistory, History, is_stale
from experiments.telemetry.keeper import LOOK_S, Keeper
from experiments.telemetry.trace import RECORDED_HOST, Trace
from experiments.telemetry.turns import FOLDER, Turns


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
    """The readings of this machine and of the rented ones whose runs are copied into `data_dir`, or of a
    `trace` in their place; nothing is read before `run`."""

    def __init__(self, trace: Trace | None = None, data_dir: Path | None = None) -> None:
        self.history = History()
        self.trace = trace
        self.host = socket.gethostname() if trace is None else RECORDED_HOST
        self.keeper = Keeper(self.history, self.host)
        self.curves: dict[tuple[str, int], Curves] = {}
        self._turns = None if data_dir is None else data_dir / FOLDER
        self._rented = None if data_dir is None or trace is not None else RentedReadings(data_dir / RUNS)

    @property
    def title(self) -> str | None:
        """What a page calls readings that are not those of now; None for those that are."""
        return None if self.trace is None else self.trace.title

    @property
    def interval_s(self) -> float:
        """Seconds between readings."""
        return self.keeper.interval_s

    async def run(
        self, database: Database, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        """Sample, and keep the means of every window, until cancelled; then those of the last one.

        Means of a recording are not kept. A database that can't be written is tried again.
        """
        if self.trace is not None:
            await self._play(self.trace)
            return
        turns = None if self._turns is None else Turns(self._turns, self.host, database.shown)
        try:
            if turns is not None:
                await asyncio.to_thread(turns.show)
            await self._watch(database, clock)
        finally:
            if turns is not None:
                turns.end()

    async def _play(self, trace: Trace) -> None:
        source = Replay(self.history, trace)
        source.start()
        try:
            await asyncio.Event().wait()
        finally:
            source.stop()

    async def _watch(self, database: Database, clock: Callable[[], datetime]) -> None:
        await asyncio.to_thread(self.keeper.begin, database, clock())
        self.keeper.start()
        try:
            while True:
                await asyncio.sleep(LOOK_S)
                await asyncio.to_thread(self.keeper.look, database, clock())
                try:
                    await asyncio.to_thread(self.look_at_rented, database)
                except Exception:
                    _log.exception("The readings of rented machines could not be read; it is tried again.")
        finally:
            self.keeper.end(database, clock())

    def fresh(self, now: datetime) -> tuple[DeviceHistory, ...]:
        """The devices whose newest reading is one of now."""
        return tuple(
            each
            for each in self.history.devices(now)
            if not is_stale((now - each.at).total_seconds(), self.interval_s)
        )

    def look_at_rented(self, database: Database) -> None:
        """Take in what was copied of rented machines since the last look."""
        if self._rented is not None:
            self._rented.look(database, self.history)
