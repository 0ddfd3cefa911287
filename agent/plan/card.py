"""The memory that a plan is made for: this machine's target, a listed card, or a size."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from agent.ground.target import Target
from configs.catalog import Kind, packaged_names
from configs.errors import UsageError
from configs.hardware import HardwareProfile, load_hardware_profile, profile_of_device
from configs.memory import available_memory_bytes
from configs.targets import is_rented
from experiments.space.gpu import Gpu

_SIZE = re.compile(r"(\d{1,4}(?:\.\d{1,2})?) ?GB", re.ASCII | re.IGNORECASE)

GB = 10**9

_EXACT = "!"
"""Ends a rented GPU that is asked for exactly; no part of its name."""

LEAST_GB = 1.0
"""A smaller card is a slip of the unit."""


@dataclass(frozen=True)
class Card:
    """What a launch is to fit on.

    `free_bytes` is what is free now, None for a card that is not here; `listed` is what its vendor states,
    None for one that no packaged profile lists. `is_gpu` is False for this machine's processor.
    `limit_bytes` is what launches may take of it at most, None for all that is free.
    """

    name: str
    memory_bytes: int
    is_gpu: bool = True
    here: bool = False
    free_bytes: int | None = None
    compute_capability: str | None = None
    driver: str | None = None
    listed: HardwareProfile | None = None
    limit_bytes: int | None = None

    def served(self, gpu: Gpu) -> Gpu:
        """The GPU of this card, with its memory, and with its name where that is one; a size has none."""
        name = None if self.compute_capability is None else self.name
        return replace(gpu, memory_bytes=self.memory_bytes, name=name)


def limited(card: Card, limit_bytes: int | None) -> Card:
    """The card of which launches may take at most so many bytes, where that is limited."""
    return card if limit_bytes is None else replace(card, limit_bytes=limit_bytes)


def card_asked(text: str) -> Card:
    """The card of a packaged hardware profile, a YAML file of one, or a size such as `16GB`.

    Raises `UsageError` for a name that is none, with the nearest.
    """
    size = _SIZE.fullmatch(text.strip())
    if size is not None:
        memory = float(size[1])
        if memory < LEAST_GB:
            raise UsageError(f"A card of {text} holds no model.", "Give its memory, such as --hardware 16GB")
        return Card(f"a card of {size[1]} GB", round(memory * GB))
    try:
        listed = load_hardware_profile(text)
    except UsageError as error:
        raise UsageError(error.message, f"{error.hint} Or give a size: --hardware 16GB") from None
    return _listed(listed)


def listed_cards() -> tuple[HardwareProfile, ...]:
    """Every packaged hardware profile, the smallest card first."""
    found = map(load_hardware_profile, packaged_names(Kind.HARDWARE))
    return tuple(sorted(found, key=lambda each: (each.memory_bytes, each.name)))


def card_of(target: Target) -> Card:
    """What a campaign's own target has."""
    gpu = target.gpu
    if gpu is None and target.place is not None:
        name, memory = f"{target.cpu.name} of {target.place}", target.cpu.memory_bytes
        return Card(name, memory, is_gpu=False, free_bytes=memory)
    if gpu is None:
        free = available_memory_bytes()
        return Card(target.cpu.name, target.cpu.memory_bytes, is_gpu=False, here=True, free_bytes=free)
    return Card(
        gpu.name,
        gpu.memory_bytes,
        here=target.place is None,
        free_bytes=gpu.free_bytes,
        compute_capability=gpu.compute_capability,
        driver=gpu.driver,
        listed=profile_of_device(gpu.name, gpu.memory_bytes),
    )


def _listed(profile: HardwareProfile) -> Card:
    return Card(
        profile.title,
        profile.memory_bytes,
        compute_capability=profile.compute_capability,
        listed=profile,
    )


def card_of_rented(target: str) -> Card | None:
    """The card of a rented GPU that a packaged profile lists; None of another, and of what is not rented."""
    name = target.partition(":")[2].removesuffix(_EXACT).lower() if is_rented(target) else ""
    return card_asked(name) if name in packaged_names(Kind.HARDWARE) else None
