"""How much slower this machine is, now, than the one that the promised times were written for.

Shared virtual machines give a core two to four times less at one hour than at another. A promise is therefore
held at the speed of the moment: a fixed piece of pure Python is timed beside the code under test. There is an
end to that: on a machine slower than `MOST_SLOWNESS` the promise is missed, and the test says so.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

REFERENCE_S = 0.008
"""Processor time of `fixed_work` on the machine of the promises: one that ranks 5,000 hypotheses in 30 ms."""

TRIES = 5

MOST_SLOWNESS = 4.0
"""What a limit is multiplied by at most: what shared machines were seen to lose."""


def fixed_work() -> int:
    """Objects, a dictionary and a sort: what ranking and planning are made of."""
    rng = random.Random(5)
    rows = [(rng.random(), f"row {number}", {"number": number}) for number in range(12_000)]
    by_name = {name: fields for _, name, fields in rows}
    return sum(by_name[name]["number"] for _, name, _ in sorted(rows, key=lambda row: -row[0])[:6000])


def slowness() -> float:
    """Processor time of the fixed work over the reference's, the best of a few tries; never below 1."""
    took_s = []
    for _ in range(TRIES):
        began = time.process_time()
        fixed_work()
        took_s.append(time.process_time() - began)
    return max(1.0, min(took_s) / REFERENCE_S)


@dataclass(frozen=True)
class Promise:
    """The most seconds that something may take on the machine of the promises."""

    what: str
    most_s: float

    def hold(self, took_s: float) -> None:
        """Print the figure, the promise and the factor of this machine now; fail where it is not held."""
        slow = slowness()
        factor = min(slow, MOST_SLOWNESS)
        limit_s = self.most_s * factor
        machine = f"this machine takes {slow:.1f} times the reference's time now"
        capped = f", of which {MOST_SLOWNESS:g} count" if slow > MOST_SLOWNESS else ""
        told = f"{self.what}: {took_s:.3f} s; promised {self.most_s:g} s; {machine}{capped}: {limit_s:.3f} s"
        print(f"\n{told}")
        assert took_s < limit_s, told
