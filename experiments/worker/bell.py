"""The bell: a worker tells the process that started it, at once, that a job has left it.

A campaign's loop so need not look often while something is measured, and still loses no time afterwards. The
worker inherits the writing end of a pipe; the reading end is `agent.campaign.resources.worker_process`'s.
What a ring means is in the database: one that is lost costs the listener a wait, nothing else.
"""

from __future__ import annotations

import os
from contextlib import suppress

BELL_VARIABLE = "_AUTOINFER_BELL_FD"
"""Environment variable that holds the number of the pipe's writing end; no setting, which begin otherwise."""


def ring() -> None:
    """Wake whoever started this worker; does nothing where nobody asked to be woken, or listens any more."""
    number = os.environ.get(BELL_VARIABLE)
    if number:
        with suppress(OSError):
            os.write(int(number), b"!")
