"""Looking for garbage seldom, or not at all while something is worked out."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

SELDOM = 50_000
"""Objects that are made and not freed until garbage is looked for again, in place of Python's 700: four times
as many saved no more. What is lost in circles until then takes some megabytes."""


def look_seldom() -> None:
    """Let this process look for garbage seldom, and not at its end, when memory is given back as a whole.

    What a command imports stays, and going through it again and again took a seventh of its processor time.
    """
    gc.set_threshold(SELDOM)
    atexit.register(gc.freeze)


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
