"""A GPU type as it is asked of a provider, and whether what a driver tells is that type. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from configs.hardware import NEAR, HardwareProfile

GB = 1e9


@dataclass(frozen=True)
class AskedGpu:
    """A type by the name that it is asked for by: the words its driver's name must have, and its memory in GB
    from `least_gb` to `most_gb`."""

    name: str
    words: re.Pattern[str]
    least_gb: float
    most_gb: float

    def other(self, provider: str, got: str, memory_bytes: int) -> str | None:
        """What the provider gave, by the driver's name and memory, where that is another type, as a clause;
        None where it is this one."""
        memory_gb = memory_bytes / GB
        if self.words.search(got) and self.least_gb <= memory_gb <= self.most_gb:
            return None
        return (
            f"{provider} gave {got} with {memory_gb:.0f} GB where {self.name} was asked for; "
            "times of another GPU are not compared"
        )


def asked_by_profile(name: str, profile: HardwareProfile) -> AskedGpu:
    """The type that a hardware profile describes, as whoever asks for it calls it."""
    words = "|".join(re.escape(each) for each in profile.device_names)
    memory_gb = profile.memory_bytes / GB
    return AskedGpu(name, re.compile(f"^(?:{words})$"), memory_gb * (1 - NEAR), memory_gb * (1 + NEAR))
