"""Campaigns whose experiments all share one noise profile: what is true on average over profiles need not
hold of each campaign.

Each campaign draws one profile and runs equal experiments of a gain of exactly `min_effect`, where support is
false and so is refutation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agent.judge.launch_interval import LaunchIntervalJudge
from tests.proofs.counting import Share, Workers, seed_of
from tests.proofs.hypothesis_streams import LENGTH
from tests.proofs.simulated_rates import Counts, TimeNoise, counts_of, gain_of
from tests.simulation.experiment import DEFAULT_PLAN, profile_of
from tests.simulation.rates import simulate

LAUNCH_SD = 0.01
"""Between launches, as in the other simulations."""

UNLUCKY = 0.05
"""The share of campaigns that the worst ones are."""


@dataclass(frozen=True)
class SharedProfile:
    """Campaigns of `LENGTH` experiments each, with a profile of `freedom` degrees of freedom each."""

    freedom: int
    campaigns: Sequence[Counts]

    @property
    def together(self) -> Counts:
        """All experiments."""
        return sum(self.campaigns[1:], start=self.campaigns[0])

    @property
    def unlucky(self) -> Share:
        """Experiments whose interval held at every look, in the worst `UNLUCKY` of the campaigns, one at
        least."""
        held = sorted(each.held_everywhere for each in self.campaigns)
        worst = held[: max(1, math.floor(UNLUCKY * len(held)))]
        return Share(sum(worst), LENGTH * len(worst))

    @property
    def most_supported(self) -> int:
        """Experiments called supported in the campaign with the most of them."""
        return max(each.supported for each in self.campaigns)


def sharing(workers: Workers, freedom: int, campaigns: int, seed: int) -> SharedProfile:
    """So many campaigns, whatever the number of processes."""
    jobs = [(freedom, seed_of(seed, freedom, number)) for number in range(campaigns)]
    return SharedProfile(freedom, workers.map(_campaign, jobs))


def _campaign(job: tuple[int, int]) -> Counts:
    freedom, seed = job
    truth = gain_of(DEFAULT_PLAN.min_effect, TimeNoise(LAUNCH_SD))
    noise = profile_of(DEFAULT_PLAN, truth, freedom, np.random.default_rng(seed))
    return counts_of(simulate(LaunchIntervalJudge(), DEFAULT_PLAN, truth, LENGTH, seed=seed + 1, noise=noise))
