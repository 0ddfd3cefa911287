"""From a point of the space to a configuration of the table. Pure."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from experiments.space.configuration import Configuration, KnobValue

ASKS = 20
"""Points that a sampler may draw until one is a configuration of the table that was not tried."""


def distance(left: Mapping[str, KnobValue], right: Mapping[str, KnobValue]) -> int:
    """In how many knobs two configurations differ; one that only one of them has counts."""
    return sum(left.get(name) != right.get(name) for name in {*left, *right})


def settled(
    drawn: Callable[[], Configuration], left: Sequence[Configuration], random_: random.Random
) -> Configuration:
    """The first of `ASKS` points that is among those left; else the one left that differs from the first
    point in the fewest knobs, at random of several. `left` is not empty."""
    among = set(left)
    first: Configuration | None = None
    for _ in range(ASKS):
        point = drawn()
        if point in among:
            return point
        first = first or point
    assert first is not None  # `ASKS` is above 0
    least = min(distance(first, each) for each in left)
    return random_.choice([each for each in left if distance(first, each) == least])
