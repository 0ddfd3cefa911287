"""A change of place in the queue in words, with its reason. Pure."""

from __future__ import annotations

ENTERED, LEFT = "entered the queue", "left the queue"
"""How the reasons of those that came or went begin, which tell that themselves."""


def moved_words(before: int | None, after: int | None, reason: str) -> str:
    """Such as `5 → 2: REASON`, `entered the queue as third, after …`, `left from 1: tested, after …`.

    `before` and `after` are places from 1 on, None where it was or is not in the queue.
    """
    if before is None:
        return reason if reason.startswith(ENTERED) else f"enters at {after}: {reason}"
    if after is None:
        rest = reason.removeprefix(LEFT) if reason.startswith(LEFT) else f": {reason}"
        return f"left from {before}{rest}"
    return f"{before} → {after}: {reason}"
