"""Points of two costs, such as latency and quality lost: which of them nothing beats, and the rest in bins.

Pure. Both costs are better when smaller.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Places = NDArray[np.int64]


def front(x: Floats, y: Floats) -> Places:
    """Where the points are that no other equals or beats in both, by rising `x`; of equal ones the first."""
    kept: list[int] = []
    least = np.inf
    for place in np.lexsort((y, x)):
        if y[place] < least:
            kept.append(int(place))
            least = y[place]
    return np.array(kept, dtype=np.int64)


@dataclass(frozen=True)
class Bin:
    """Points that lie together: their mean place, how many there are, and where the one of least `x` is."""

    x: float
    y: float
    count: int
    first: int


def bins(x: Floats, y: Floats, most: int) -> tuple[Bin, ...]:
    """The points one by one where there are at most so many, else by the cells of a grid with so many.

    A grid is half as many again wide as high, and spans the points; so no more than `most` bins come back.
    """
    if len(x) == 0:
        return ()
    if len(x) <= most:
        return tuple(Bin(float(x[place]), float(y[place]), 1, place) for place in range(len(x)))
    rows = max(1, int((most / 1.5) ** 0.5))
    columns = max(1, most // rows)
    cell = _cells(x, columns) * rows + _cells(y, rows)
    order = np.lexsort((x, cell))
    _, starts, counts = np.unique(cell[order], return_index=True, return_counts=True)
    sum_x, sum_y = np.add.reduceat(x[order], starts), np.add.reduceat(y[order], starts)
    return tuple(
        Bin(
            float(sum_x[each] / counts[each]),
            float(sum_y[each] / counts[each]),
            int(counts[each]),
            int(order[start]),
        )
        for each, start in enumerate(starts)
    )


def _cells(values: Floats, count: int) -> Places:
    low, high = float(values.min()), float(values.max())
    if high <= low:
        return np.zeros(len(values), dtype=np.int64)
    return np.minimum((values - low) / (high - low) * count, count - 1).astype(np.int64)
