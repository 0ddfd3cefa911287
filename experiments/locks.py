"""Locks between processes: `flock` on one file each, which the end of a process lets go of."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Locks:
    """What one object holds, by name; the files are in `folder`. Every call may raise `OSError`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[str, int] = {}

    def share(self, name: str) -> None:
        """Wait until nobody holds it alone, and hold it beside others."""
        self._hold(name, fcntl.LOCK_SH)

    def try_exclude(self, name: str) -> bool:
        """Hold it alone; False, and not held at all, where somebody else holds it."""
        try:
            self._hold(name, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release(name)
            return False
        return True

    def release(self, name: str) -> None:
        """Let go of it; nothing where it is not held."""
        if (descriptor := self._held.pop(name, None)) is not None:
            os.close(descriptor)

    def release_all(self) -> None:
        """Let go of all."""
        while self._held:
            os.close(self._held.popitem()[1])

    @contextmanager
    def alone(self, name: str) -> Iterator[bool]:
        """Hold it alone for the block; False where somebody, this object included, holds it already."""
        descriptor = self._open(name)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True
        finally:
            os.close(descriptor)

    def _open(self, name: str) -> int:
        self._folder.mkdir(parents=True, exist_ok=True)
        return os.open(self._folder / name, os.O_RDWR | os.O_CREAT, 0o644)

    def _hold(self, name: str, mode: int) -> None:
        if name not in self._held:
            self._held[name] = self._open(name)
        # Converting a lock may let another process in between; callers look again after it was exclusive.
        fcntl.flock(self._held[name], mode)
