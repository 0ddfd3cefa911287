"""The proposer `profile`: where the time of a step is, and what could take it away. Pure.

Layers that take their time along when they go, dispatch that compilation and graphs remove, kernels above
the floor of their bytes, whole steps that drafting spares: each with the numbers of the profile that speak
for it. What was found of drafting is measured again after every change of its target.
"""

from __future__ import annotations

from collections.abc import Mapping

from agent.proposers.drafting_rule import drafting, measured_again
from agent.proposers.idea import Idea, other_values
from agent.proposers.of_objective import of_first_tokens, of_requests
from agent.proposers.port import CampaignView, Draft
from agent.proposers.profile_rule import by_profile
from agent.proposers.pruning_rule import pruning
from agent.proposers.step_profile import StepProfile, step_profile
from agent.proposers.turns import Rule, in_turns, strongest_first, within_budget
from agent.surrogate.objective import OF_STEPS

NAME = "profile"

BY_KERNELS = ("kernel", "experts_kernel", "graphs", "scheduling")
"""Levers of which a profile by kernels says what they could win of the time."""

COMPILE, COMPILE_OFF = "serving.compile", "off"
"""The knob of compilation, and its value that undoes it, which this proposer never brings."""


class ProfileProposer:
    """Where the time is; see the module's page."""

    name = NAME

    def propose(self, view: CampaignView, count: int) -> list[Draft]:
        """At most `count` drafts; its rules take turns, the one that expects most first."""
        levers = [Rule(NAME, within_budget(view, of_lever(view, lever))) for lever in view.space.levers]
        return in_turns(view, strongest_first(view, [Rule(NAME, measured_again(view)), *levers]), count)


def of_lever(view: CampaignView, lever: str) -> list[Idea]:
    """What the profile says of a lever; empty for one that is about bytes, or that it does not know, and in a
    campaign about first tokens for one that acts on steps."""
    if of_first_tokens(view) and lever in OF_STEPS:
        return []
    step = step_profile(view.profile, view.tpot_ms)
    if lever in BY_KERNELS:
        return of_requests(view, lever, by_profile(view, lever))
    rule = {"compile": _compile, "pruning": pruning, "drafting": drafting}.get(lever)
    return [] if rule is None else of_requests(view, lever, rule(view, step))


def _compile(view: CampaignView, step: StepProfile | None) -> list[Idea]:
    """Time that is dispatch, not bytes, is what compilation removes."""
    if step is None:
        why = "A decode step at batch 1 is many small operations, whose dispatch compilation removes."
    else:
        bound = "dispatch and not memory is" if step.dispatch_bound else "memory is"
        outside = ", ".join(f"{kind} {100 * share:.0f} %" for kind, share in _largest(step.other))
        why = (
            f"A step of {step.tpot_ms:.2f} ms reads {step.weight_bytes / 1e6:.1f} MB of weights, "
            f"{step.gb_per_s:.2f} GB/s: {bound} what it waits for; layers take {100 * step.layers:.0f} %, "
            f"outside them {outside}."
        )
    return [
        Idea(candidate, why)
        for candidate in other_values(view, "compile")
        if candidate.get(COMPILE) != COMPILE_OFF
    ]


def _largest(shares: Mapping[str, float], most: int = 3) -> list[tuple[str, float]]:
    return sorted(shares.items(), key=lambda share: (-share[1], share[0]))[:most]
