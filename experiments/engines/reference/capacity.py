"""Tokens of context that a decode step is built for. Imports no torch."""

from __future__ import annotations

SMALLEST_CAPACITY = 256
"""Tokens of context that a step is compiled for at least; larger ones are this times a power of two."""


def capacity_for(tokens: int) -> int:
    """The capacity that holds `tokens` tokens of context."""
    capacity = SMALLEST_CAPACITY
    while capacity < tokens:
        capacity *= 2
    return capacity
