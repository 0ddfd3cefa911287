"""Who reads this host's devices for a database, so that not every process does that could.

A dashboard reads them in any case, for its pages. Of the workers that share a data folder one does, and none
while a dashboard does. Both are told by locks that end with their holder, however it ends. Where a file
system has no locks, or data folders differ, several read at once, which costs a little time and counts
nothing twice (`telemetry.keeper`).
"""

from __future__ import annotations

from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from experiments.locks import Locks

FOLDER = "devices"
"""Where the locks lie, in the data folder."""


class Turns:
    """The locks of a host and a database, which is named as it is shown, in `folder`."""

    def __init__(self, folder: Path, host: str, database: str) -> None:
        self._locks = Locks(folder)
        name = f"{host}-{sha256(database.encode()).hexdigest()[:16]}"
        self._shown, self._kept = f"{name}.shown", f"{name}.kept"

    def show(self) -> None:
        """Read the devices beside whoever does, from now until `end`."""
        with suppress(OSError):
            self._locks.share(self._shown)

    def take(self) -> bool:
        """Read them from now until `end`; False where another does."""
        try:
            if not self._locks.try_exclude(self._kept):
                return False
        except OSError:
            return True
        if self.is_shown():
            self.end()
            return False
        return True

    def is_shown(self) -> bool:
        """Whether another reads them in any case. Only who has taken the turn may ask: two that ask at once
        would take each other for a dashboard."""
        try:
            with self._locks.alone(self._shown) as alone:
                return not alone
        except OSError:
            return False

    def end(self) -> None:
        """Leave it to others."""
        self._locks.release_all()
