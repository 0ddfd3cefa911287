"""The threads that numpy and scipy compute with: one in our own processes, whatever is given in a job's.

Their library, OpenBLAS, starts a thread for each core as it is loaded, and these wait for work and for each
other by turning on their cores. What is learnt from 200 verdicts takes six to twenty times the processor time
with two threads that it takes with one, on cores that may be measured on, and longer too
(`docs/configuration.md`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

THREADS_VARIABLE = "OPENBLAS_NUM_THREADS"
"""Read by the library from the environment of its process, once, as it is loaded."""


def compute_in_one_thread() -> None:
    """Let this process, which has not imported numpy yet, load the library without threads, whenever it does.

    The process's environment alone is changed, and `os.environ` is not: from that a worker gives jobs theirs.
    """
    os.putenv(THREADS_VARIABLE, "1")


@contextmanager
def without_threads() -> Iterator[None]:
    """Import what is imported within without threads: they can't be forked, and take from what else runs.

    What is imported later, and what processes that are started later see, is as it was.
    """
    given = os.environ.get(THREADS_VARIABLE)
    os.environ[THREADS_VARIABLE] = "1"
    try:
        yield
    finally:
        del os.environ[THREADS_VARIABLE]
        if given is not None:
            os.environ[THREADS_VARIABLE] = given
