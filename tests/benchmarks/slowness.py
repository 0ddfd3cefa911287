"""How much slower this machine is, now, than the one that the promised times were written for.

Shared virtual machines give a core two to four times less at one hour than at another. A promise is therefore
held at the speed of the moment: a fixed piece of pure Python is timed beside the code under test.
"""

from __future__ import annotations

import random
import time

REFERENCE_S = 0.008
"""Processor time of `fixed_work` on the machine of the promises: one that ranks 5,000 hypotheses in 30 ms."""

TRIES = 5


def fixed_work() -> int:
    """Objects, a dictionary and a sort: what ranking and planning are made of."""
    rng = random.Random(5)
    rows = [(rng.random(), f"row {number}", {"number": number}) for number in range(12_000)]
    by_name = {name: fields for _, name, fields in rows}
    return sum(by_name[name]["number"] for _, name, _ in sorted(rows, key=lambda row: -row[0])[:6000])


def slowness() -> float:
    """Processor time of the fixed work over the reference's, the best of a few tries; never below 1.

    Printed, so that a table of a slow machine says that it is one.
    """
    took_s = []
    for _ in range(TRIES):
        began = time.process_time()
        fixed_work()
        took_s.append(time.process_time() - began)
    found = max(1.0, min(took_s) / REFERENCE_S)
    print(f"\nthis machine takes {found:.1f} times the reference's time now; limits are multiplied by that")
    return found
