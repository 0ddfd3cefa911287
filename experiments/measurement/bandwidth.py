"""How fast this CPU copies memory, measured: a floor for whatever has to read its weights.

Method (after STREAM's Copy, McCalpin 1995): a source of `COPY_BYTES` is copied into a destination of the same
size, which is twice that many bytes moved (read + written). The arrays are touched once before; the fastest
of `REPETITIONS` copies counts, because everything that disturbs a copy makes it slower. numpy copies in one
thread, so `threads` threads each copy a part of their own (numpy lets go of the interpreter's lock while it
copies).

The arrays are larger than most last-level caches and smaller than some: on a server with hundreds of
megabytes of cache the figure is that of the cache, and so are a small model's weights.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

COPY_BYTES = 64 * 2**20
"""Size of the source, bytes, over all threads."""

REPETITIONS = 5
"""Copies that are timed; together with the first touch they take some 0.1 s."""

METHOD = "numpy copy, bytes read + written, best of 5"
"""What a figure is called where it is stored."""


@dataclass(frozen=True)
class CopyBandwidth:
    """A measured bandwidth: bytes read and written together a second, and how it was measured."""

    bytes_per_s: float
    threads: int
    copy_bytes: int
    method: str


def measure_copy_bandwidth(
    threads: int = 1, copy_bytes: int = COPY_BYTES, repetitions: int = REPETITIONS
) -> CopyBandwidth:
    """Measure the copy bandwidth with `threads` threads; raises `ValueError` for less than one of
    anything."""
    if min(threads, copy_bytes // max(1, threads), repetitions) < 1:
        raise ValueError("threads, bytes a thread and repetitions must be at least 1")
    parts = [
        (np.ones(copy_bytes // threads, dtype=np.uint8), np.zeros(copy_bytes // threads, dtype=np.uint8))
        for _ in range(threads)
    ]
    times_s = []
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(repetitions):
            start_s = time.perf_counter()
            list(pool.map(_copy, parts))
            times_s.append(time.perf_counter() - start_s)
    moved_bytes = 2 * sum(source.nbytes for source, _ in parts)
    return CopyBandwidth(moved_bytes / min(times_s), threads, copy_bytes, METHOD)


def _copy(part: tuple[np.ndarray, np.ndarray]) -> None:
    source, destination = part
    np.copyto(destination, source)
