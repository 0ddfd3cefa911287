"""Several devices at once: what a hypothesis is still worth beside what is under test. Pure.

A batch that is chosen one by one must not spend two devices on one gain. What changes the same lever as a
test that flies can't be had on top of it, so its gain is counted from where that test is expected to lead:
the mean that is believed of it times the chance that it holds and runs. So a device that comes free takes
another lever, unless the rest of this one promises more. Tests on other levers add up, and are counted in
full. The idea is the believer's of Ginsbourger, Le Riche and Carraro ("Kriging is well-suited to parallelize
optimization", 2010), with the outcome weighed by its chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from agent.campaign.known.facts import Facts
from agent.ranking.values import Beside
from agent.surrogate.beliefs import Beliefs
from db.labels import Noun, format_label
from experiments.space.configuration import Configuration
from experiments.space.space import Space

LEAST_LOG = math.log1p(-0.005)
"""What is expected to save less than half a per cent is not counted against anything."""


@dataclass(frozen=True)
class Flying:
    """A test that flies: its levers, and the log ratio over the incumbent that it is expected to lead to."""

    levers: frozenset[str]
    beside: Beside


def flying_now(facts: Facts, space: Space, beliefs: Beliefs, best: Configuration) -> tuple[Flying, ...]:
    """What is under test on other devices and expected to save time; empty where there is one device."""
    if len(facts.spec.devices) < 2 or not facts.flying:
        return ()
    about = beliefs.about([(best, candidate) for _, candidate in facts.flying])
    found = []
    for number, (_, candidate), belief in zip(facts.flying_ids, facts.flying, about, strict=True):
        expected = belief.prediction.log_ratio_mean * belief.p_quality * belief.p_feasible
        if expected < LEAST_LOG:
            levers = frozenset(space.levers_between(best, candidate))
            found.append(Flying(levers, Beside(format_label(Noun.HYPOTHESIS, number), expected)))
    return tuple(found)


def counted_from(levers: Sequence[str], flying: Sequence[Flying]) -> Beside | None:
    """The test from which a change of these levers is counted: the one of the same lever that is expected to
    save most."""
    same = [each.beside for each in flying if each.levers.intersection(levers)]
    return min(same, key=lambda each: (each.expected_log, each.hypothesis), default=None)
