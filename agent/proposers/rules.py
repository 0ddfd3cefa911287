"""The proposer `rules`: `carried`, `recombination`, `profile`, `roofline` and `neighbours` as one. Pure.

What a campaign's file may name for short, and what an earlier version's files name. A campaign asks the parts
one by one, each by its share (`agent/proposers/asking.py`); asked itself, it gives their ideas in turns: what
another campaign found best, what was supported put together, drafting again on a changed target, then lever
by lever in the order of the space. Each draft is of the part that it came from.
"""

from __future__ import annotations

from agent.proposers import carried, neighbours, profile, recombination, roofline
from agent.proposers.drafting_rule import measured_again
from agent.proposers.port import CampaignView, Draft
from agent.proposers.pruning_rule import least_layers_that_fit
from agent.proposers.turns import Rule, in_turns, within_budget

PRUNING = "pruning"
"""The lever that alone brings a target within a parameter budget."""

NAME = "rules"


class RulesProposer:
    """Domain rules over the profile and the roofline; see the module's page."""

    name = NAME
    parts = (
        carried.CarriedProposer(),
        recombination.RecombinationProposer(),
        profile.ProfileProposer(),
        roofline.RooflineProposer(),
        neighbours.NeighboursProposer(),
    )
    """What the name stands for, in the order in which they are asked."""

    def propose(self, view: CampaignView, count: int) -> list[Draft]:
        """At most `count` drafts; rules take turns, the largest expected gain of each first."""
        rules = [
            Rule(carried.NAME, carried.found_elsewhere(view)),
            Rule(recombination.NAME, recombination.recombined(view)),
            Rule(profile.NAME, measured_again(view)),
            *(_of_lever(view, lever) for lever in _levers(view)),
        ]
        return in_turns(view, rules, count)


def _of_lever(view: CampaignView, lever: str) -> Rule:
    """What the first part that knows the lever has of it."""
    for part in (profile, roofline, neighbours):
        ideas = part.of_lever(view, lever)
        if ideas:
            return Rule(part.NAME, within_budget(view, ideas))
    return Rule(neighbours.NAME, ())


def _levers(view: CampaignView) -> tuple[str, ...]:
    """The space's levers in the order in which they are tried: pruning first where the incumbent itself is
    above the parameter budget, since nothing fits without."""
    levers = view.space.levers
    if least_layers_that_fit(view) is None:
        return levers
    return tuple(sorted(levers, key=lambda lever: lever != PRUNING))
