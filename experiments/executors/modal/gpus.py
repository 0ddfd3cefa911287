"""GPU types as they are asked of Modal, and whether a driver's name is one of them. Pure.

Modal may run `H100` on an H200 and `A100` on one of 80 GB; whoever compares times asks exactly. Source of the
types: Modal's guide on GPUs, version 1.6.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from configs.errors import UsageError
from experiments.executors.asked_gpu import AskedGpu

_KNOWN = (
    ("T4", "T4", 14, 18),
    ("L4", "L4", 20, 26),
    ("A10", "A10G?", 20, 26),
    ("L40S", "L40S", 44, 52),
    ("A100-40GB", "A100.*", 38, 46),
    ("A100-80GB", "A100.*", 76, 90),
    ("H100!", "H100", 76, 90),
    ("H200", "H200", 130, 155),
    ("B200", "B200", 170, 200),
)
"""A type, the word that its driver's name has, and its memory in GB, from and to."""

TYPES: Mapping[str, AskedGpu] = {
    name: AskedGpu(name, re.compile(rf"\b{word}\b", re.IGNORECASE), least_gb, most_gb)
    for name, word, least_gb, most_gb in _KNOWN
}
"""What can be asked for, exactly."""

INEXACT: Mapping[str, str] = {
    "A100": "A100-40GB or A100-80GB",
    "H100": "H100!",
    "B200+": "B200",
    "A10G": "A10",
}
"""What Modal takes and may answer with another type, and what to write in its place."""

TARGET_PREFIX = "modal:"
NO_GPU = "cpu"


def gpu_of_target(target: str) -> str | None:
    """The type of a target such as `modal:H100!`; None for `modal:cpu`.

    Raises `UsageError` for anything else, and for a type that Modal would answer with more than one.
    """
    given = target.removeprefix(TARGET_PREFIX)
    if given == NO_GPU:
        return None
    name = given.upper()
    if name in TYPES:
        return name
    if name in INEXACT:
        raise UsageError(
            f"Modal may run {given!r} on more than one type of GPU, whose times can't be compared.",
            f"Ask for one of them: {INEXACT[name]}.",
        )
    raise UsageError(
        f"There is no GPU type {given!r} on Modal that is known here.",
        f"Known are: {', '.join(TYPES)}; {NO_GPU} for none.",
    )


def other_than_asked(asked: str, name: str, memory_bytes: int) -> str | None:
    """Why a GPU, by its driver's name and memory, is not the type asked for, in a sentence; None if it is."""
    other = TYPES[asked].other("Modal", name, memory_bytes)
    return None if other is None else f"{other}, so nothing was measured."
