"""Giving way: processes that serve or watch must not take time from what is measured beside them."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

NICENESS = 19
"""How far a process stands back behind others; 19 is the furthest."""


def give_way(pid: int = 0) -> None:
    """Put a process, 0 for this one, and what it starts from then on, behind all others.

    Where Linux groups processes by session (sched(7), "The autogroup feature") niceness counts within the
    session alone, so that of the session is set too; the process should have one of its own. A system that
    knows neither is left as it is.
    """
    with suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, pid, NICENESS)
    session = Path("/proc") / (str(pid) if pid else "self") / "autogroup"
    with suppress(OSError):
        if os.getsid(pid) == (pid or os.getpid()):
            session.write_text(str(NICENESS))
