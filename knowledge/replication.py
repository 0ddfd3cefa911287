"""Whether a fresh run of a test says what the first one claimed. Pure.

The two runs share the sealed plan and nothing that was measured. Two questions decide, which reports of
replications ask side by side (Open Science Collaboration, *Science* 349, 2015):

1. *Does the fresh run say so by itself?* Its verdict is by the same judge and plan, so a claim that was
   supported is supported again only where the fresh interval excludes no effect beyond the margin, quality
   held, and validation agreed.
2. *Is it the same effect?* The interval of the difference, reproduced less claimed, covers zero. It is put
   together from both intervals without an assumption of symmetry (the method of variance estimates recovery,
   Zou and Donner, *Statistics in Medicine* 27, 2008): two runs that each err by little may differ by more
   than either interval tells.

Both yes: it *agrees*. A fresh run that decides otherwise, or an effect that differs, *differs*. A fresh run
that decides nothing, in one effect with the first, leaves it *open*.

The intervals hold at whatever moment a test stops, so that they are wider than those of a fixed plan, and the
difference's covers zero a little more often than its level says. Against that works that a test which stopped
because its effect was clear tells that effect too large on average.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from db.states import VerdictOutcome
from knowledge.figures import effect

UNDECIDED = frozenset({VerdictOutcome.INCONCLUSIVE, VerdictOutcome.CONFOUNDED})
"""Outcomes that decide nothing."""

RULE = (
    "agrees where the fresh run's own verdict is the same, by the same sealed plan, and the interval of the "
    "difference between the two effects covers zero"
)
"""The rule in short, as it stands under what it decided."""

_SAME = 1e-9
"""Difference of two effects that are exact, natural log, below which they are the same: rounding."""


class Agreement(StrEnum):
    """What a fresh run says of the first."""

    AGREES = "agrees"
    DIFFERS = "differs"
    OPEN = "open"


@dataclass(frozen=True)
class Judgement:
    """A verdict: its outcome, and the effect on `metric` with its interval, natural logarithms or differences
    of shares; None where nothing was measured."""

    outcome: VerdictOutcome
    metric: str
    effect_log: float | None = None
    low_log: float | None = None
    high_log: float | None = None

    @property
    def words(self) -> str:
        """The effect in words."""
        if self.effect_log is None:
            return "not measured"
        return effect(self.effect_log, self.low_log, self.high_log, self.metric)


@dataclass(frozen=True)
class Difference:
    """Reproduced less claimed, with its interval: natural logarithms, or differences of shares."""

    effect_log: float
    low_log: float
    high_log: float

    @property
    def covers_zero(self) -> bool:
        """Whether the two may be one effect."""
        return self.low_log <= _SAME and self.high_log >= -_SAME


@dataclass(frozen=True)
class Comparison:
    """What the fresh run says, the difference where both measured, and why in a clause."""

    agreement: Agreement
    difference: Difference | None
    why: str


def compare(claimed: Judgement, fresh: Judgement) -> Comparison:
    """Return what `fresh` says of `claimed`; both are of the same arms, metric and plan."""
    difference = difference_between(claimed, fresh)
    apart = difference is not None and not difference.covers_zero
    if claimed.outcome is fresh.outcome:
        if apart:
            return Comparison(
                Agreement.DIFFERS, difference, f"both {fresh.outcome.value}, but by another amount"
            )
        return Comparison(Agreement.AGREES, difference, f"both {fresh.outcome.value}")
    why = f"{fresh.outcome.value} now, {claimed.outcome.value} then"
    if fresh.outcome is VerdictOutcome.CONFOUNDED:
        return Comparison(Agreement.OPEN, difference, f"{why}, so the two can't be compared")
    if apart:
        return Comparison(Agreement.DIFFERS, difference, f"{why}, by another amount")
    if claimed.outcome in UNDECIDED or fresh.outcome in UNDECIDED:
        return Comparison(Agreement.OPEN, difference, f"{why}, which decides nothing")
    return Comparison(Agreement.DIFFERS, difference, why)


def difference_between(claimed: Judgement, fresh: Judgement) -> Difference | None:
    """Return reproduced less claimed with its interval; None where one was not measured or has no interval.

    The lower end lies below the difference by the root of the squared distances from the fresh effect to its
    lower end and from the claimed one to its upper end, and the upper end likewise.
    """
    ends = (claimed.low_log, claimed.high_log, fresh.low_log, fresh.high_log)
    low_then, high_then, low_now, high_now = ends
    if low_then is None or high_then is None or low_now is None or high_now is None:
        return None
    if claimed.effect_log is None or fresh.effect_log is None:
        return None
    middle = fresh.effect_log - claimed.effect_log
    below = math.hypot(fresh.effect_log - low_now, high_then - claimed.effect_log)
    above = math.hypot(high_now - fresh.effect_log, claimed.effect_log - low_then)
    return Difference(middle, middle - below, middle + above)
