"""A flag that a signal's handler may raise while its own thread waits for it.

`threading.Event` may not be set there: its lock is taken by whoever waits, for a moment before and after, and
a handler that runs in just that moment waits for a lock that its own thread holds, without end. A worker
that was asked to end then never did. Here raising the flag writes a byte into a pipe, as the wakeup
descriptor of Python's own `signal` does, and takes no lock.
"""

from __future__ import annotations

import math
import os
import select
import weakref
from contextlib import suppress
from typing import Protocol

MS_PER_S = 1e3


class Stop(Protocol):
    """What somebody who is to end at some time looks at; a `threading.Event` is one too."""

    def is_set(self) -> bool:
        """Whether it is time to end."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is, `timeout` seconds at most; gives whether it is."""


class StopFlag:
    """A `Stop` that any thread, and any handler of a signal, may set; once set it stays so."""

    def __init__(self) -> None:
        self._is_set = False
        self._waits, self._wakes = os.pipe()
        for end in (self._waits, self._wakes):
            os.set_blocking(end, False)
        weakref.finalize(self, _close, self._waits, self._wakes)

    def set(self) -> None:
        """Say that it is time to end."""
        self._is_set = True
        with suppress(BlockingIOError):  # full of what was said before: whoever waits is awake
            os.write(self._wakes, b"\0")

    def is_set(self) -> bool:
        """Whether it is time to end."""
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is, `timeout` seconds at most; gives whether it is."""
        if not self._is_set:
            watched = select.poll()
            watched.register(self._waits, select.POLLIN)
            watched.poll(None if timeout is None else math.ceil(max(0.0, timeout) * MS_PER_S))
        return self._is_set


def _close(*ends: int) -> None:
    for end in ends:
        os.close(end)
