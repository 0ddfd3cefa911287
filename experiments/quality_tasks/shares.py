"""How many items each task of a group gives. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches


def shares(count: int, sizes: Sequence[int]) -> list[int]:
    """`count` items over tasks of these sizes, one a task in turn while it has any; all where there are
    fewer.

    More items never take one away: what a larger count gives a task begins with what a smaller one gave.
    """
    given = [0] * len(sizes)
    left = min(count, sum(sizes))
    while left:
        for place, size in enumerate(sizes):
            if left and given[place] < size:
                given[place] += 1
                left -= 1
    return given


def further(name: str, known: Sequence[str]) -> str:
    """` Did you mean …?` for the nearest names; nothing where none is near."""
    near = get_close_matches(name, known, n=3)
    return f" Did you mean {' or '.join(near)}?" if near else ""
