"""Locks of artifacts between processes: `flock` on one file each, which the end of a process lets go of."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Locks:
    """What one store object holds, by digest; the files are in `folder`. Every call may raise `OSError`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[str, int] = {}

    def share(self, digest: str) -> None:
        """Wait until nobody holds it alone, and hold it beside others."""
        self._hold(digest, fcntl.LOCK_SH)

    def try_exclude(self, digest: str) -> bool:
        """Hold it alone; False, and not held at all, where somebody else holds it."""
        try:
            self._hold(digest, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release(digest)
            return False
        return True

    def release(self, digest: str) -> None:
        """Let go of it; nothing where it is not held."""
        if (descriptor := self._held.pop(digest, None)) is not None:
            os.close(descriptor)

    def release_all(self) -> None:
        """Let go of all."""
        while self._held:
            os.close(self._held.popitem()[1])

    @contextmanager
    def alone(self, digest: str) -> Iterator[bool]:
        """Hold it alone for the block; False where somebody, this object included, holds it already."""
        descriptor = self._open(digest)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True
        finally:
            os.close(descriptor)

    def _open(self, digest: str) -> int:
        self._folder.mkdir(parents=True, exist_ok=True)
        return os.open(self._folder / digest, os.O_RDWR | os.O_CREAT, 0o644)

    def _hold(self, digest: str, mode: int) -> None:
        if digest not in self._held:
            self._held[digest] = self._open(digest)
        # Converting a lock may let another process in between; callers look again after it was exclusive.
        fcntl.flock(self._held[digest], mode)
