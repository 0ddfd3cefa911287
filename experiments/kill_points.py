"""Test only: named places where worker and job kill or freeze themselves, so that tests hit the moment.

Nothing happens unless the environment names a point. `AUTOINFER_TEST_KILL_AT=after-claim` sends SIGKILL to
the process that reaches the point, `AUTOINFER_TEST_FREEZE_AT=before-result` sends it SIGSTOP. Where
`AUTOINFER_TEST_ONCE` names a file, only the process that makes it dies or freezes. No user sets them.
"""

from __future__ import annotations

import os
import signal
from enum import StrEnum

KILL_VARIABLE = "AUTOINFER_TEST_KILL_AT"
FREEZE_VARIABLE = "AUTOINFER_TEST_FREEZE_AT"
ONCE_VARIABLE = "AUTOINFER_TEST_ONCE"


class KillPoint(StrEnum):
    """Where a process can be told to die."""

    AFTER_CLAIM = "after-claim"
    """The worker holds the lease and has started nothing."""
    AFTER_SUBMIT = "after-submit"
    """The job runs and the worker has not yet bound its process to the lease."""
    BEFORE_SUBMIT = "before-submit"
    """A remote job is claimed, its price reserved and its key stored; nothing is submitted."""
    WHILE_RUNNING = "while-running"
    """A remote job runs and its ref is stored."""
    AFTER_MEASURE = "after-measure"
    """The job wrote its first block of samples."""
    BEFORE_RESULT = "before-result"
    """The worker holds the result and has no transaction open."""
    BETWEEN_RESULT_AND_STATE = "between-result-and-state"
    """Inside the worker's transaction: the rows are written, the job's state is not."""
    AFTER_DISPATCH = "after-dispatch"
    """The loop's test is in the queue, and the loop has not looked at it."""
    BETWEEN_VERDICT_AND_STATE = "between-verdict-and-state"
    """Inside the loop's transaction: the verdict is written, the hypothesis's state is not."""
    BEFORE_LEARNT = "before-learnt"
    """Inside the loop's transaction: the verdict and what follows are written, nothing is committed."""
    WHILE_BUILDING = "while-building"
    """The artifact's files are written, its manifest is not."""
    BEFORE_RENAME = "before-rename"
    """The artifact is complete in its temporary folder."""
    BEFORE_REMOTE_SUBMIT = "before-remote-submit"
    """What is to be submitted remotely is written down, and nothing was submitted."""
    BEFORE_REF_STORED = "before-ref-stored"
    """The remote run exists, and its id is known to this process alone."""
    BEFORE_REMOTE_RESULT_STORED = "before-remote-result-stored"
    """The remote run has ended and its records are copied; how it ended is not stored."""


def reached(point: KillPoint) -> None:
    """Die or freeze here when the environment names this `point`."""
    for variable, number in ((KILL_VARIABLE, signal.SIGKILL), (FREEZE_VARIABLE, signal.SIGSTOP)):
        if os.environ.get(variable) == point.value and _is_first():
            os.kill(os.getpid(), number)


def _is_first() -> bool:
    """Whether nobody reached the point before; always, where it is not to happen once only."""
    once = os.environ.get(ONCE_VARIABLE)
    if once is None:
        return True
    try:
        os.close(os.open(once, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return False
    return True
