"""Reading this machine's devices for as long as something runs, and keeping the means of every window.

A server's loop (`dashboard.devices`) or a worker's thread (`telemetry.beside`) calls `look` every `LOOK_S`.
Two that keep the same windows at once do no harm: each has read a part of a window, and the longer one stays
(`telemetry.keeping`); one that begins within a window adds to what was kept before it.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from datetime import datetime, timedelta

from sqlalchemy import exists, select

from configs.errors import AutoinferError
from db.at_work import at_work
from db.models import Job
from db.session import Database
from experiments.telemetry.collect import INTERVAL_S, MEASURED_INTERVAL_S
from experiments.telemetry.collector import Collector, Source
from experiments.telemetry.history import KEPT_S, History
from experiments.telemetry.keeping import keep, kept
from experiments.telemetry.means import WINDOW_S, DeviceMean, joined, window_means, window_of
from experiments.telemetry.reading import DeviceKind, device_key

LOOK_S = 5.0
"""Seconds between looks at whether an experiment is measured here, and whether means are to be kept."""

KEEP_EVERY_S = 60.0
"""Seconds between means that are kept, of the window that is not over too: a machine that goes away at once
takes no more than these with it."""

SourceOf = Callable[[History], Source]
"""Makes what samples this machine into a history."""

_log = logging.getLogger(__name__)


class Keeper:
    """Samples this machine into `history` from `start` on, and keeps the means of what is there of `host`.

    Nothing of it raises for a database that can't be read or written: that is tried again at the next look.
    """

    def __init__(self, history: History, host: str | None = None, source: SourceOf = Collector) -> None:
        self.host = socket.gethostname() if host is None else host
        self.interval_s = INTERVAL_S
        self.has_kept = False
        self._history = history
        self._source = source(history)
        self._begun: dict[tuple[str, datetime], DeviceMean] = {}
        self._window: datetime | None = None
        self._kept_at: datetime | None = None
        self._fails = False

    def begin(self, database: Database, now: datetime) -> None:
        """Take in what was kept of the window of now, before anything is read."""
        self._window, self._kept_at = window_of(now), now
        try:
            self.take_in(database, self._window)
        except Exception as error:
            _log.warning("What was kept of the devices' last minutes could not be read: %s", error)

    def start(self) -> None:
        """Begin to read."""
        self._source.start()

    def look(self, database: Database, now: datetime) -> None:
        """Set how often is read, and keep means where it is time to."""
        try:
            self.interval_s = self.wanted_interval_s(database)
            self._source.pace(self.interval_s)
            if self._kept_at is None or (now - self._kept_at).total_seconds() >= KEEP_EVERY_S:
                self._keep_until(database, now)
            self._fails = False
        except Exception as error:
            if not self._fails:
                _log.warning(
                    "The means of the devices could not be kept; it is tried again: %s",
                    error,
                    exc_info=not isinstance(error, AutoinferError),
                )
            self._fails = True

    def end(self, database: Database, now: datetime) -> None:
        """Stop reading, and keep what was read since the last look."""
        self._source.stop()
        try:
            self._keep_until(database, now)
        except Exception as error:
            _log.warning("The last means of the devices could not be kept: %s", error)

    def take_in(self, database: Database, window: datetime) -> None:
        """Take in what others kept of the windows from that one on: that of this machine's devices is added
        to what is read here."""
        with database.read() as session:
            self._begun = {
                (mean.device, mean.started_at): mean
                for mean in kept(session, window)
                if mean.host == self.host
            }

    def keep_since(self, database: Database, window: datetime, now: datetime) -> datetime:
        """Store the means of the windows from the one that began at `window` to that of now, as far as their
        readings are still here; returns the last, which is not over."""
        last = window_of(now)
        first = max(window, window_of(now - timedelta(seconds=KEPT_S)))
        for place in range((last - first) // timedelta(seconds=WINDOW_S) + 1):
            self.keep(database, first + timedelta(seconds=WINDOW_S) * place)
        return last

    def keep(self, database: Database, window: datetime) -> None:
        """Store the means of the window that began then, of this machine's devices: those of rented ones are
        stored by their worker."""
        devices = self._history.devices(window + timedelta(seconds=WINDOW_S))
        means = window_means([each for each in devices if each.host == self.host], window)
        if means:
            with database.write() as session:
                keep(session, [self._with_begun(mean) for mean in means])
            self.has_kept = True

    def wanted_interval_s(self, database: Database) -> float:
        """Seconds between samples: more while these processors are measured."""
        here = Job.device == device_key(self.host, DeviceKind.CPU)
        with database.read() as session:
            measured = session.scalar(select(exists().where(here, at_work())))
        return MEASURED_INTERVAL_S if measured else INTERVAL_S

    def _keep_until(self, database: Database, now: datetime) -> None:
        self._window = self.keep_since(database, self._window or window_of(now), now)
        self._kept_at = now

    def _with_begun(self, mean: DeviceMean) -> DeviceMean:
        begun = self._begun.get((mean.device, mean.started_at))
        return mean if begun is None else joined(begun, mean)
