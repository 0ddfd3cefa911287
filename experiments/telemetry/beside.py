"""Means of this host's devices from a process that shows nothing: a thread of a worker keeps them."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread

from db.session import Database
from experiments.telemetry.collector import Collector
from experiments.telemetry.history import History
from experiments.telemetry.keeper import LOOK_S, Keeper, SourceOf
from experiments.telemetry.means import window_of
from experiments.telemetry.turns import Turns

END_S = 5.0
"""Seconds that the last means are waited for; a database that is locked for longer does without them."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Here:
    """What a host's devices are read by, and how often is looked whether means are to be kept."""

    host: str = field(default_factory=socket.gethostname)
    source: SourceOf = Collector
    look_s: float = LOOK_S
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)


@contextmanager
def kept_beside(database: Database, folder: Path, here: Here | None = None) -> Iterator[None]:
    """Keep the means of this host's devices while the block runs, whenever no other process does; `folder` is
    that of `Turns`. No failure of it ends the block."""
    ending = Event()
    thread = Thread(
        target=_keep_in_turn, args=(database, folder, here or Here(), ending), name="means", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join(END_S)


def _keep_in_turn(database: Database, folder: Path, here: Here, ending: Event) -> None:
    turns, told = Turns(folder, here.host, database.shown), False
    while not ending.is_set():
        try:
            if turns.take():
                _keep(database, turns, here, ending)
        except Exception:
            if not told:  # once, and not every few seconds of a night
                _log.exception("The devices could not be read; it is tried again.")
            told = True
        finally:
            turns.end()
        ending.wait(here.look_s)


def _keep(database: Database, turns: Turns, here: Here, ending: Event) -> None:
    """Until the end, or until a dashboard keeps what is read: from the window after the one that it began in,
    for of that it lacks a part; at once where nothing was kept yet that it could lack."""
    keeper = Keeper(History(), here.host, here.source)
    keeper.begin(database, here.clock())
    keeper.start()
    shown_in: datetime | None = None
    try:
        while not ending.wait(here.look_s):
            now = here.clock()
            keeper.look(database, now)
            if not turns.is_shown():
                shown_in = None
            elif not keeper.has_kept or window_of(now) > (shown_in or window_of(now)):
                return
            else:
                shown_in = shown_in or window_of(now)
    finally:
        keeper.end(database, here.clock())
