"""What must be built is shared by all that will use it: each is charged an equal part. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shared:
    """Of one test: `builds_s` of its expected seconds build what `others` (the most of any artifact) use too,
    and `own_s` of those are charged to it."""

    builds_s: float = 0.0
    own_s: float = 0.0
    others: int = 0

    @property
    def spared_s(self) -> float:
        """Seconds that are charged to others."""
        return self.builds_s - self.own_s


NOTHING = Shared()


def shared_builds(builds_s: Sequence[Mapping[str, float]], uses: Sequence[bool]) -> list[Shared]:
    """What each test is charged of what it builds; `builds_s` has the seconds by artifact.

    `uses` says which of them will be run, for all that can be said now, and so share with others; one that
    will not is charged as if it ran beside those that will.
    """
    users = Counter(key for each, is_user in zip(builds_s, uses, strict=True) if is_user for key in each)
    found = []
    for each, is_user in zip(builds_s, uses, strict=True):
        if not each:
            found.append(NOTHING)
            continue
        built = own = 0.0
        most = 0
        for key, seconds in each.items():
            others = users[key] - is_user
            if others > 0:
                built += seconds
                own += seconds / (others + 1)
                most = max(most, others)
        found.append(Shared(built, own, most) if most else NOTHING)
    return found
