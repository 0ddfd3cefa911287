"""Whether launches fit into what may be taken of a card. Pure.

What a launch takes is counted by `experiments.engines.launch_memory`.
"""

from __future__ import annotations

from dataclasses import dataclass

USABLE_SHARE = 0.9
"""Share of a card that an engine takes at most: vLLM's own default of `gpu_memory_utilization`."""


@dataclass(frozen=True)
class Room:
    """Whether launches fit: what they are, in words, and the bytes they need of those that may be taken."""

    what: str
    needed_bytes: int
    usable_bytes: int

    @property
    def missing_bytes(self) -> int:
        """Bytes that are missing; 0 where they fit."""
        return max(0, self.needed_bytes - self.usable_bytes)

    @property
    def fits(self) -> bool:
        """Whether they fit."""
        return not self.missing_bytes


def usable_bytes(memory_bytes: int, free_bytes: int | None = None) -> int:
    """Bytes of a card that may be taken, of which `free_bytes` are free (None: all of it)."""
    usable = round(USABLE_SHARE * memory_bytes)
    return usable if free_bytes is None else min(usable, free_bytes)
