"""How many tokens a step of vLLM's server has where that is left to it, by the GPU. Pure.

Read in `EngineArgs` of the versions named here; a launch tells what it came to (`max_batch_tokens`).
"""

from __future__ import annotations

TOKENS_BY_MEMORY: tuple[tuple[int, int], ...] = ((160 * 2**30, 16_384), (70 * 2**30, 8192), (0, 2048))
"""Tokens that a step has on a GPU of so many bytes or more, `max_num_batched_tokens`."""

READ = ((0, 32), (0, 33))
"""The versions of vLLM of which that was read."""

SMALL_STEPS = "a100"
"""In the name of GPUs on which steps are of the smallest size whatever their memory."""


def tokens_by_memory(memory_bytes: int) -> int:
    """What a GPU of so much memory takes, whatever it is named."""
    return next(tokens for least, tokens in TOKENS_BY_MEMORY if memory_bytes >= least)


def server_step_tokens(memory_bytes: int, name: str) -> int:
    """What the GPU of this memory that its driver names so takes."""
    return tokens_by_memory(0 if SMALL_STEPS in name.lower() else memory_bytes)
