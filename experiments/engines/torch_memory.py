"""PyTorch's words for memory that ran out, as one sentence with how much was missing. Imports no torch.

`began` is what ran out of memory, as the sentence begins; `ways` is what to do, as it ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from experiments.engines.port import Infeasible

BYTES_IN_GIB = 2**30

UNITS_IN_GIB: Mapping[str, float] = {
    "bytes": 1 / BYTES_IN_GIB,
    "KiB": 1 / 2**20,
    "MiB": 1 / 2**10,
    "GiB": 1.0,
}
"""What PyTorch tells sizes in."""

_GPU_FULL = re.compile(
    r"CUDA out of memory\. Tried to allocate ([\d.]+) (bytes|KiB|MiB|GiB)\..*?"
    r"of which ([\d.]+) (bytes|KiB|MiB|GiB) is free",
    re.DOTALL,
)
"""Of a full card it often says that 0 bytes are free."""

_GPU_FULL_UNTOLD = re.compile(r"([^\n]*(?:out of memory|CUBLAS_STATUS_ALLOC_FAILED)[^\n]*)")
"""The GPU's memory is full, in words without figures: of the driver, or of a library."""

_CPU_FULL = re.compile(r"DefaultCPUAllocator: [^\n]*?you tried to allocate (\d+) bytes")
_CPU_FULL_UNTOLD = re.compile(r"(DefaultCPUAllocator: [^\n]*|[^\n]*can't allocate memory[^\n]*)")


def missing_bytes(text: str) -> int | None:
    """How much of a GPU's memory was missing for the allocation at which it failed, at least; None where the
    text does not tell."""
    found = _GPU_FULL.search(text)
    if found is None:
        return None
    wanted, free = _gib(found[1], found[2]), _gib(found[3], found[4])
    return round(BYTES_IN_GIB * max(0.0, wanted - free))


def full_told(began: str, text: str, ways: str) -> str | None:
    """That a GPU's memory is full, with the figures; None where the text has none."""
    found = _GPU_FULL.search(text)
    if found is None:
        return None
    wanted, free = _gib(found[1], found[2]), _gib(found[3], found[4])
    return (
        f"{began}: {wanted:.2f} GiB more were asked for and {free:.2f} are free, "
        f"{max(0.0, wanted - free):.2f} GiB too few; {ways}."
    )


def memory_told(began: str, text: str, ways: str) -> str | None:
    """That memory ran out, of a GPU or of the machine, with the figures as far as the text has them; None
    where it tells of something else."""
    told = full_told(began, text, ways)
    if told is not None:
        return told
    on_cpu = _CPU_FULL.search(text)
    if on_cpu is not None:
        asked = int(on_cpu[1]) / BYTES_IN_GIB
        return f"{began}: {asked:.2f} GiB more were asked for, and the machine does not have them; {ways}."
    untold = _GPU_FULL_UNTOLD.search(text) or _CPU_FULL_UNTOLD.search(text)
    if untold is None:
        return None
    words = " ".join(untold[1].split()).rstrip(".")
    return f"{began}, and by how much is not told ({words}); {ways}."


@contextmanager
def told_of_memory(began: str, ways: str) -> Iterator[None]:
    """Raise what runs out of memory within as `Infeasible`, kind `out_of_memory`, in one sentence; all else
    as it is. PyTorch's own errors of a full device are `RuntimeError`s, the one of it by name included."""
    try:
        yield
    except MemoryError:
        raise Infeasible(
            "out_of_memory", f"{began}: the machine's memory is full, and by how much is not told; {ways}."
        ) from None
    except RuntimeError as failure:
        text = str(failure)
        told = memory_told(began, text, ways)
        if told is None:
            raise
        raise Infeasible("out_of_memory", told, missing_bytes(text)) from None


def _gib(number: str, unit: str) -> float:
    return float(number) * UNITS_IN_GIB[unit]
