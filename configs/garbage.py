"""Working without looking for garbage meanwhile."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock


class _Collector:
    """Python's collector, off while anybody works without it, and then as it was before the first of them."""

    def __init__(self) -> None:
        self._lock, self._within, self._was_on = Lock(), 0, False

    def begin(self) -> None:
        with self._lock:
            if not self._within:
                self._was_on = gc.isenabled()
                gc.disable()
            self._within += 1

    def end(self) -> None:
        with self._lock:
            self._within -= 1
            if not self._within and self._was_on:
                gc.enable()


_COLLECTOR = _Collector()


@contextmanager
def uncollected() -> Iterator[None]:
    """Keep Python from looking for garbage meanwhile: where much is made that stays, it would go through
    all of it again and again, a quarter to a third of the time, and find none.

    May be within another one, and in several threads at once: the last to end turns it on again.
    """
    _COLLECTOR.begin()
    try:
        yield
    finally:
        _COLLECTOR.end()
