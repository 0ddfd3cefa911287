"""How a command runs that answers and ends: without what only a long process gains by."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager

from configs.garbage import uncollected


@contextmanager
def briefly() -> Iterator[None]:
    """Run what is within without looking for garbage, of which an answer leaves little.

    At the end of the process memory is given back as a whole, not looked through. Together this is a quarter
    of the processor time of a short command.
    """
    atexit.register(gc.freeze)
    with uncollected():
        yield
