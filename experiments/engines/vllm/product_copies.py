"""How many copies of a product's weights are timed in turn, and what of that a device's memory bears. Pure.

There are so many that together they are `CACHES` times what the last cache holds: each call reads its own
from memory, as in a model, where other layers lie between. Where memory is short there are fewer, but no
fewer than `LEAST_CACHES` times: a product that is read from the cache is timed for something else.
"""

from __future__ import annotations

CACHES = 4
"""All copies of a product's weights together, over the size of the last cache: least recently used ones are
gone long before their turn comes again."""

LEAST_CACHES = 2
"""The same where memory is short: still none of a copy is there when its turn comes, if the least recently
used goes first."""

MOST_COPIES = 48
"""Copies at most: smaller weights than a cache of 50 MB over this are never alone in a model either."""

PREPARED_TIMES = 3
"""How many times their size weights take while vLLM prepares them for a kernel. A guess."""

MB = 1e6


class TooLittleMemory(Exception):
    """Too few copies of a product's weights fit; the message says so, with the figures."""


def copies_needed(weight_bytes: int, cache: int, caches: int = CACHES) -> int:
    """How many copies of weights of this size are so many times what the cache holds."""
    return max(1, min(MOST_COPIES, -(-caches * cache // max(1, weight_bytes))))


def copies_that_fit(weight_bytes: int, cache: int, free_bytes: int | None) -> int:
    """How many copies to time, the first of which is there already, where so much memory is free besides;
    None: memory is no question. Raises `TooLittleMemory` where they would be read from the cache."""
    needed = copies_needed(weight_bytes, cache)
    if free_bytes is None:
        return needed
    further = (free_bytes - PREPARED_TIMES * weight_bytes) // max(1, weight_bytes) + 1
    copies = min(needed, 1 + max(0, further))
    least = copies_needed(weight_bytes, cache, LEAST_CACHES)
    if copies >= least:
        return copies
    raise TooLittleMemory(
        f"not enough memory to time it: {free_bytes / MB:.0f} MB of the device are free, and of its weights "
        f"of {weight_bytes / MB:.1f} MB {least} copies are needed, or they would be read from the cache of "
        f"{cache / MB:.0f} MB."
    )
