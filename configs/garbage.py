"""Working without looking for garbage meanwhile."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Keep Python from looking for garbage meanwhile: where much is made that stays, it would go through
    all of it again and again, a quarter to a third of the time, and find none.

    May be within another one, and in several threads at once: who found the collector on turns it on again.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
