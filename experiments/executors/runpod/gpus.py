"""GPU types of RunPod as targets name them, and whether a driver's name is the type asked for. Pure.

Source of the ids: RunPod's list of GPU types, August 2026.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from configs.errors import UsageError
from experiments.executors.asked_gpu import AskedGpu

TARGET_PREFIX = "runpod:"
NO_GPU = "cpu"


@dataclass(frozen=True)
class GpuType:
    """A type: RunPod's id, and how it is known by its driver."""

    id: str
    asked: AskedGpu


_KNOWN = (
    ("L4", "NVIDIA L4", r"\bL4\b", 20, 26),
    ("A40", "NVIDIA A40", r"\bA40\b", 44, 52),
    ("L40S", "NVIDIA L40S", r"\bL40S\b", 44, 52),
    ("RTX4090", "NVIDIA GeForce RTX 4090", r"\b4090\b(?! D)", 22, 27),
    ("RTX5090", "NVIDIA GeForce RTX 5090", r"\b5090\b(?! D)", 30, 36),
    ("A100-PCIE", "NVIDIA A100 80GB PCIe", r"\bA100\b.*PCIe", 76, 90),
    ("A100-SXM", "NVIDIA A100-SXM4-80GB", r"\bA100-SXM", 76, 90),
    ("H100-PCIE", "NVIDIA H100 PCIe", r"\bH100 PCIe", 76, 90),
    ("H100-SXM", "NVIDIA H100 80GB HBM3", r"\bH100 80GB HBM3", 76, 90),
    ("H100-NVL", "NVIDIA H100 NVL", r"\bH100 NVL", 90, 105),
    ("H200", "NVIDIA H200", r"\bH200$", 130, 155),
    ("B200", "NVIDIA B200", r"\bB200\b", 170, 200),
)
"""A type, RunPod's id of it, words that its driver's name has, and its memory in GB, from and to."""

TYPES: Mapping[str, GpuType] = {
    name: GpuType(gpu_id, AskedGpu(name, re.compile(words, re.IGNORECASE), least_gb, most_gb))
    for name, gpu_id, words, least_gb, most_gb in _KNOWN
}
"""What can be asked for: one type each, so that times are of one kind of machine."""


def gpu_of_target(target: str) -> str | None:
    """The type of a target such as `runpod:H100-SXM`; None for `runpod:cpu`; else raises `UsageError`."""
    given = target.removeprefix(TARGET_PREFIX).removesuffix("!")
    if given == NO_GPU:
        return None
    if given.upper() in TYPES:
        return given.upper()
    raise UsageError(
        f"There is no GPU type {given!r} on RunPod that is known here.",
        f"Known are: {', '.join(TYPES)}; {NO_GPU} for none.",
    )


def other_than_asked(asked: str, name: str, memory_bytes: int) -> str | None:
    """Why a GPU, by its driver's name and memory, is not the type asked for, in a sentence; None if it is."""
    other = TYPES[asked].asked.other("RunPod", name, memory_bytes)
    return None if other is None else f"{other}, so nothing was measured."
