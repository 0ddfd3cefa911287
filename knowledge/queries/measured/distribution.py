"""The distribution of an arm's samples: its steps, few enough to be drawn."""

from __future__ import annotations

from collections.abc import Sequence

from db.states import Arm
from knowledge.queries.measured.spread import SpreadView, spread

MOST_STEPS = 240
"""Steps of a distribution at most: more than a screen can show apart."""


class DistributionView(SpreadView):
    """The samples of an arm: each step is a value with the share of samples at or below it, ascending."""

    arm: Arm
    steps: tuple[tuple[float, float], ...]


def distribution(arm: Arm, metric: str, unit: str, ordered: Sequence[float]) -> DistributionView:
    """Return the distribution of at least one value, ascending; of many, ranks evenly apart and both ends."""
    count = len(ordered)
    if count <= MOST_STEPS:
        ranks = list(range(count))
    else:
        ranks = [round(step * (count - 1) / (MOST_STEPS - 1)) for step in range(MOST_STEPS)]
    return DistributionView(
        **spread(metric, unit, ordered).model_dump(),
        arm=arm,
        steps=tuple((ordered[rank], (rank + 1) / count) for rank in ranks),
    )
