"""Power of a true gain at the k-th test of a campaign: the online control makes later tests stricter.

The level of a test depends on how many came before and how many of these were supported. Two histories are
taken: nothing was supported before, which is the strictest that there is, and every fifth test was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agent.discovery.e_lond import level
from agent.plan.length import LEAST_PAIRS
from configs.campaign import load_campaign
from tests.proofs.counting import Workers
from tests.proofs.simulated_rates import TimeNoise, counted, gain_of, plan_of
from tests.proofs.targets import TRUE_GAIN, LaterPower, Power
from tests.simulation.experiment import DEFAULT_PLAN

TESTS = (1, 5, 20, 50)
"""Places in the stream of a campaign's tests on time."""

GAINS = (TRUE_GAIN, 0.10)
"""True gains, relative."""

ONE_IN = 5
"""One test in so many was supported before, in the second history."""


@dataclass(frozen=True)
class Cell:
    """The `test`-th test of a campaign of `campaign` (minutes, hours), whose plan has `full_pairs`, after
    `supported` of the tests before were."""

    campaign: str
    full_pairs: int
    test: int
    supported: int

    @property
    def support_alpha(self) -> float:
        """The level that the online control gives it."""
        return level(DEFAULT_PLAN.alpha, self.test - 1, self.supported)


def cells() -> Iterator[Cell]:
    """The tests that are told of, the strictest history of each first."""
    whole = load_campaign("default", {}).plan.full_pairs
    for campaign, pairs in (("minutes", LEAST_PAIRS), ("hours", whole)):
        for test in TESTS:
            for supported in sorted({0, (test - 1) // ONE_IN}):
                yield Cell(campaign, pairs, test, supported)


def later_powers(
    workers: Workers, experiments: int, noise: TimeNoise, seed: int, place: int, told: Sequence[Cell]
) -> list[LaterPower]:
    """The power of each gain at each of these tests, so many experiments each; `place` is that of the first
    seed."""
    found = []
    for number, (cell, gain) in enumerate((cell, gain) for cell in told for gain in GAINS):
        plan = plan_of(cell.full_pairs, cell.support_alpha)
        counts = counted(workers, plan, gain_of(gain, noise), experiments, seed, place + number)
        who = f"test {cell.test} of a campaign of {cell.campaign}"
        power = Power(plan, gain, noise, counts, who)
        found.append(LaterPower(cell.campaign, cell.test, cell.supported, power))
    return found
