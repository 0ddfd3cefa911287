"""A GPU as an engine serves on it: what decides which values of a space it takes there. Pure."""

from __future__ import annotations

from dataclasses import dataclass

VLLM = "vllm"
"""The engine whose sources were read."""


@dataclass(frozen=True)
class Gpu:
    """`capability` is the compute capability as NVIDIA writes it, such as 8.9, None where it is not known;
    `engine` the engine's name, and `version` the major and minor number of the one that serves there, None
    where that is not known, as on a rented machine."""

    capability: str | None
    engine: str = VLLM
    version: tuple[int, int] | None = None

    @property
    def number(self) -> tuple[int, int] | None:
        """The compute capability as numbers that compare: 12.0 is above 8.9."""
        if self.capability is None:
            return None
        major, _, minor = self.capability.partition(".")
        return int(major), int(minor or 0)

    def below(self, major: int, minor: int) -> bool:
        """Whether its compute capability is known to be lower."""
        return self.number is not None and self.number < (major, minor)
