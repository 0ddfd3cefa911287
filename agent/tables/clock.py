"""How long a call may go on, and whether it has been told to end."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass
class Budget:
    """Seconds from now on; None for as long as it takes. `stop` ends it at once."""

    wall_s: float | None = None
    _start_s: float = field(default_factory=time.monotonic)
    _stopped: bool = False

    @property
    def left_s(self) -> float:
        """Seconds that are left, 0 when it is over."""
        if self._stopped:
            return 0.0
        if self.wall_s is None:
            return float("inf")
        return max(0.0, self.wall_s - (time.monotonic() - self._start_s))

    def stop(self) -> None:
        """End it now."""
        self._stopped = True  # and no lock: a handler of a signal does it

    @property
    def is_stopped(self) -> bool:
        """Whether it was ended before its time."""
        return self._stopped

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be begun."""
        return self.left_s <= 0
