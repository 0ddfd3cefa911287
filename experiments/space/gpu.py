"""A GPU as an engine serves on it: what decides which values of a space it takes there. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.space.server_steps import READ, server_step_tokens

VLLM = "vllm"
"""The engine whose sources were read."""


SERVED_FROM = (7, 5)
"""The first compute capability that vLLM's documentation on installing it names; to 0.14 it was 7.0."""


@dataclass(frozen=True)
class Gpu:
    """`capability` is the compute capability as NVIDIA writes it, such as 8.9, None where it is not known;
    `engine` the engine's name, and `version` the major and minor number of the one that serves there, None
    where that is not known, as on a rented machine. `memory_bytes` and `name` are as its driver tells them,
    None where they are not known; `told_step_tokens` is how many tokens a step had in a launch where that was
    left to the server, None where none told."""

    capability: str | None
    engine: str = VLLM
    version: tuple[int, int] | None = None
    memory_bytes: int | None = None
    name: str | None = None
    told_step_tokens: int | None = None

    @property
    def number(self) -> tuple[int, int] | None:
        """The compute capability as numbers that compare: 12.0 is above 8.9."""
        if self.capability is None:
            return None
        major, _, minor = self.capability.partition(".")
        return int(major), int(minor or 0)

    @property
    def step_tokens(self) -> int | None:
        """How many tokens a step has where that is left to the server; None where it is not known."""
        if self.told_step_tokens is not None or self.engine != VLLM or self.version not in READ:
            return self.told_step_tokens
        if self.memory_bytes is None or self.name is None:
            return None
        return server_step_tokens(self.memory_bytes, self.name)

    def below(self, major: int, minor: int) -> bool:
        """Whether its compute capability is known to be lower."""
        return self.number is not None and self.number < (major, minor)
