"""Wait for what processes do, and leave them most of the time: a look may be dear."""

import time
from collections.abc import Callable

PATIENCE_S = 90.0
SHORTEST_S, LONGEST_S = 0.01, 0.1
"""Between two looks."""

REST = 4
"""Times as long as a look took is the wait after it, so that looking takes a fifth of a core at most."""


def wait_for(done: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    """Look until it is so; fails after `patience_s`."""
    deadline = time.monotonic() + patience_s
    while True:
        began = time.monotonic()
        if done():
            return
        took_s = time.monotonic() - began
        assert began < deadline, "took too long"
        time.sleep(min(max(SHORTEST_S, REST * took_s), LONGEST_S))
