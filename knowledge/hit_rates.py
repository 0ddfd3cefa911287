"""How often a proposer is right, and the share of proposals that this earns it. Pure.

A proposer's *hit rate* is the share of its judged hypotheses that were supported. Judged are those with a
verdict that says something of the claim: supported, refuted, inconclusive, infeasible; a confounded test says
nothing of it. It is shown with the exact binomial interval, and used after shrinkage:

    chance = (1 + hits here + w · hits elsewhere) / (3 + judged here + w · judged elsewhere)
    share  = chance / the sum of chances

which is the mean of a Beta distribution that begins at Beta(1, 2), one supported of three, the same for every
proposer. *Elsewhere* are all other campaigns, counted as `CARRIED_MOST` verdicts at most (w ≤ 1): they say
where to begin, and what is found here soon outweighs them. A chance is never 0 and slots go by highest
averages (`slots`), so no proposer is starved for ever: one that was wrong n times in n still has a chance of
1 / (3 + n), and one with a share of 1/k comes by at the latest after k slots and what the others are owed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from knowledge.exact_interval import exact_bounds

PRIOR_HITS, PRIOR_JUDGED = 1.0, 3.0
"""What every proposer begins with: one supported of three judged. Weak on purpose, a judgement."""

CARRIED_MOST = 6.0
"""As how many verdicts all other campaigns count together at most: another model, another machine."""

OWED_MOST = 4.0
"""Slots that a proposer is owed at most for the time in which it had nothing to say."""


@dataclass(frozen=True)
class Hits:
    """`supported` of `judged`."""

    supported: int = 0
    judged: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.supported <= self.judged:
            raise ValueError(f"{self.supported} of {self.judged} can't be supported")

    @property
    def rate(self) -> float | None:
        """The share; None of nothing."""
        return self.supported / self.judged if self.judged else None

    def interval(self) -> tuple[float, float]:
        """The exact 95 % interval of Clopper and Pearson (Biometrika 26, 1934); (0, 1) of nothing."""
        return exact_bounds(self.supported, self.judged)

    def words(self) -> str:
        """Such as: 3 of 8 judged supported, 38 % (9 to 76 %); what was not judged yet says so."""
        if self.rate is None:
            return "nothing judged yet"
        low, high = (100 * end for end in self.interval())
        return (
            f"{self.supported} of {self.judged} judged supported, {100 * self.rate:.0f} % "
            f"({low:.0f} to {high:.0f} %)"
        )


@dataclass(frozen=True)
class Record:
    """What a proposer brought to a campaign (`proposed`), what became of it `here`, and in all other
    campaigns (`elsewhere`)."""

    proposed: int = 0
    here: Hits = Hits()
    elsewhere: Hits = Hits()

    @cached_property
    def chance(self) -> float:
        """How probable it is that its next one is supported, shrunk as the module says; in (0, 1)."""
        weight = min(1.0, CARRIED_MOST / self.elsewhere.judged) if self.elsewhere.judged else 0.0
        hits = PRIOR_HITS + self.here.supported + weight * self.elsewhere.supported
        return hits / (PRIOR_JUDGED + self.here.judged + weight * self.elsewhere.judged)


def shares(records: Mapping[str, Record]) -> dict[str, float]:
    """Each proposer's share of what is proposed; they add up to 1."""
    whole = math.fsum(record.chance for record in records.values())
    return {name: record.chance / whole for name, record in records.items()}


def slots(records: Mapping[str, Record], count: int) -> dict[str, int]:
    """How many of the next `count` proposals each is asked for.

    Each slot goes to whoever has the largest share over what it brought and will bring, one more included
    (highest averages: Jefferson, D'Hondt), the first named of equals. What was brought counts as no more than
    the share of all that was brought, and as no less than `OWED_MOST` below it: who brought much while it was
    right is not kept waiting for that, and one that had nothing to say is heard first once it has.
    """
    earned = shares(records)
    whole = sum(record.proposed for record in records.values())
    given = {
        name: min(max(record.proposed, earned[name] * whole - OWED_MOST), earned[name] * whole)
        for name, record in records.items()
    }
    found = dict.fromkeys(records, 0)
    for _ in range(count if records else 0):
        name = max(records, key=lambda each: earned[each] / (given[each] + 1))
        given[name] += 1
        found[name] += 1
    return found
