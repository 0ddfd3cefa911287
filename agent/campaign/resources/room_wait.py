"""A campaign whose database is on a full disk waits for room: its end could not be written.

What runs goes on, and its worker waits to record it. After `FULL_WAIT_S` the campaign is let go of as it is.
"""

from __future__ import annotations

from collections.abc import Callable

from configs.errors import DiskFull
from configs.quantities import format_duration

FULL_WAIT_S = 600.0
"""Seconds that it waits: what another program needs for a while is free again by then, and what is full stays
so until somebody sees it."""

LOOK_S = 2.0
"""Seconds between two tries, twice a worker's own: so the lease of what runs is kept before anyone finds it
run out."""


class RoomWait:
    """Counts how long it lasts; `wait` takes seconds and `clock` gives monotonic ones, `tell` says a sentence
    and `go_on` is how the campaign is gone on with later, as a command."""

    def __init__(
        self,
        wait: Callable[[float], None],
        clock: Callable[[], float],
        tell: Callable[[str], None],
        go_on: str,
    ) -> None:
        self._wait = wait
        self._clock = clock
        self._tell = tell
        self._go_on = go_on
        self._since_s: float | None = None

    @property
    def waits(self) -> bool:
        """Whether the last step found no room."""
        return self._since_s is not None

    def found_full(self, full: DiskFull) -> None:
        """Wait a little, and say so the first time; raises `DiskFull` once it has lasted too long."""
        moment = self._clock()
        if self._since_s is None:
            self._since_s = moment
            self._tell(
                f"{full} The campaign waits for room, {format_duration(FULL_WAIT_S)} at most, and goes on by "
                "itself."
            )
        elif moment - self._since_s >= FULL_WAIT_S:
            raise DiskFull(full.message, f"{full.hint} Then go on with: {self._go_on}") from full
        self._wait(LOOK_S)

    def found_room(self) -> None:
        """Say so where it was waited for."""
        if self._since_s is not None:
            waited = format_duration(self._clock() - self._since_s)
            self._since_s = None
            self._tell(f"There is room again after {waited}: the campaign goes on.")
