"""What it is worth to measure again what was measured before. Pure.

Two configurations whose means lie closer together than these are known are told apart by one more measurement
or not at all, and taking the worse of them costs what lies between them. With each mean a normal of its own,
a measurement more of one of them moves its mean by σ̃ = s² / √(s² + e²), for s the standard error of its mean
and e that of one measurement, and is expected to bring

    σ̃ · (φ(d / σ̃) − (d / σ̃) · Φ(−d / σ̃))

where d is how far it lies from the best of the others: the knowledge gradient (Frazier, Powell and Dayanik,
*SIAM Journal on Control and Optimization* 47(5), 2008).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

NORMAL = NormalDist()


@dataclass(frozen=True)
class Mean:
    """What is known of one configuration: the log of its time, how far that may be off, and how far one
    measurement more may be."""

    log: float
    se_log: float
    one_log: float

    @property
    def moves_log(self) -> float:
        """How far one measurement more is expected to move it, as a standard deviation."""
        spread = math.hypot(self.se_log, self.one_log)
        return self.se_log**2 / spread if spread > 0 else 0.0


def worth_again(means: Sequence[Mean]) -> list[float]:
    """For each configuration the share of a token's time that measuring it again is expected to save, by
    taking another as the best than now; 0 where there is no other."""
    found = []
    for place, each in enumerate(means):
        others = [other.log for at, other in enumerate(means) if at != place]
        moves = each.moves_log
        if not others or moves <= 0:
            found.append(0.0)
            continue
        z = abs(each.log - min(others)) / moves
        found.append(max(0.0, moves * (NORMAL.pdf(z) - z * NORMAL.cdf(-z))))
    return found
