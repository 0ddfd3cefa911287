"""How fast the GPU copies and multiplies, measured where the model runs. In vLLM's worker.

No step is faster than its bytes at the bandwidth, nor a prompt's than its products at the rate: the floors of
a profile (docs/profile.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

COPY_BYTES = 2**30
"""Bytes of the buffer whose copying is timed: larger than any cache."""

FREE_SHARE = 4
"""Of the free memory at most one part in so many becomes a buffer; copies take two, a product three."""

MATRIX_ROWS = 8192
"""Rows and columns of the square matrices that are multiplied: enough for all of a GPU's units."""

MATRIX_BYTES = 2 * MATRIX_ROWS**2

REPETITIONS, WARM_REPETITIONS = 20, 3

MS_PER_S = 1e3


def copy_bandwidth() -> dict[str, Any] | None:
    """Bytes read and written a second by copies within the GPU's memory, and how that was measured; None on
    a CPU and where there is no room for it."""
    if not torch.cuda.is_available():
        return None
    size = min(COPY_BYTES, _free_bytes())
    seconds = _within_memory(lambda: _copy_s(size))
    return (
        None
        if seconds is None
        else {
            "bytes_per_s": 2 * size / seconds,
            "method": f"copies of {size} bytes within the GPU, read + written, mean of {REPETITIONS}",
        }
    )


def product_rate() -> dict[str, Any] | None:
    """Multiplications and additions a second of a large matrix product in bfloat16, and how that was
    measured; None on a CPU and where there is no room for it."""
    if not torch.cuda.is_available() or _free_bytes() < MATRIX_BYTES:
        return None
    seconds = _within_memory(_product_s)
    return (
        None
        if seconds is None
        else {
            "operations_per_s": 2 * MATRIX_ROWS**3 / seconds,
            "method": f"products of {MATRIX_ROWS} × {MATRIX_ROWS} in bfloat16, mean of {REPETITIONS}",
        }
    )


def _free_bytes() -> int:
    """Bytes that one buffer may take."""
    return int(torch.cuda.mem_get_info()[0]) // FREE_SHARE


def _copy_s(size: int) -> float:
    source, target = (torch.empty(size, dtype=torch.uint8, device="cuda") for _ in range(2))
    return _seconds(lambda: target.copy_(source))


def _product_s() -> float:
    one, other, product = (
        torch.randn(MATRIX_ROWS, MATRIX_ROWS, dtype=torch.bfloat16, device="cuda") for _ in range(3)
    )
    return _seconds(lambda: torch.matmul(one, other, out=product))


def _within_memory(measure: Callable[[], float]) -> float | None:
    """What was measured, with its buffers given back; None where there was no memory for them."""
    try:
        return measure()
    except torch.cuda.OutOfMemoryError:
        return None
    finally:
        torch.cuda.empty_cache()


def _seconds(work: Callable[[], Any]) -> float:
    """Seconds of one such call by the GPU's own clock, the mean of `REPETITIONS` after some to warm up."""
    event: Callable[..., Any] = torch.cuda.Event
    begin, end = (event(enable_timing=True) for _ in range(2))
    for _ in range(WARM_REPETITIONS):
        work()
    begin.record()
    for _ in range(REPETITIONS):
        work()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / MS_PER_S / REPETITIONS
