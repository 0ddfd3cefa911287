"""The proposer `rules`: what an engineer would try first, from where the baseline's time is. Pure.

Each rule looks at one lever and gives candidates that are one step from the incumbent, with the numbers of
the profile that speak for them; two more put supported changes together and measure drafting again after
every change of its target. The rules take turns, each with the candidate of the largest expected gain first,
so that a short list has something of every kind. A lever that no rule knows is tried value by value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from agent.proposers.already_runs import already_runs
from agent.proposers.draft import draft_of, predict, predicted
from agent.proposers.drafting_rule import drafting, measured_again
from agent.proposers.idea import Idea, changed, other_values
from agent.proposers.port import CampaignView, Draft
from agent.proposers.profile_rule import by_profile
from agent.proposers.pruning_rule import least_layers_that_fit, pruning
from agent.proposers.quantization_rule import quantization
from agent.proposers.recombination import recombinations
from agent.proposers.step_profile import StepProfile, step_profile
from agent.ranking.ranking import expected_gain
from agent.surrogate.levers import changes_noise
from experiments.space.budget import with_pruning_that_pays
from experiments.space.configuration import Configuration
from experiments.space.knob import same_value

PRUNING = "pruning"
"""The lever that alone brings a target within a parameter budget."""

COMPILE, COMPILE_OFF = "serving.compile", "off"
"""The knob of compilation, and its value that undoes it, which this rule never proposes."""


class RulesProposer:
    """Domain rules over the profile and the roofline; see the module's page."""

    name = "rules"

    def propose(self, view: CampaignView, count: int) -> list[Draft]:
        """At most `count` drafts; rules take turns, the largest expected gain of each first."""
        step = step_profile(view.profile, view.tpot_ms)
        rules = [
            recombined(view),
            measured_again(view),
            *(_within_budget(view, _lever_rule(view, step, lever)) for lever in _levers(view)),
        ]
        queues = [_best_first(view, ideas) for ideas in rules]
        drafts: list[Draft] = []
        seen = set(view.taken) | {view.incumbent.digest}
        while any(queues) and len(drafts) < count:
            for queue in queues:
                while queue:
                    idea = queue.pop(0)
                    if idea.candidate.digest not in seen and _allowed(view, idea.candidate):
                        seen.add(idea.candidate.digest)
                        drafts.append(_draft(view, idea))
                        break
                if len(drafts) == count:
                    break
        return drafts


def recombined(view: CampaignView) -> list[Idea]:
    """Supported changes that the incumbent lacks, each and all together on top of it."""
    return [
        Idea(
            found.candidate,
            f"{found.described} supported apart from the incumbent; together their effects should add on the "
            f"log scale.",
            found.parents,
        )
        for found in recombinations(view)
    ]


def _lever_rule(view: CampaignView, step: StepProfile | None, lever: str) -> list[Idea]:
    rule = {
        "compile": _compile,
        "pruning": pruning,
        "quantization": quantization,
        "drafting": drafting,
        "dtype": _dtype,
        "threads": _threads,
    }.get(lever)
    return rule(view, step) if rule else by_profile(view, lever) or _value_by_value(view, lever)


def _levers(view: CampaignView) -> tuple[str, ...]:
    """The space's levers in the order in which they are tried: pruning first where the incumbent itself is
    above the parameter budget, since nothing fits without."""
    levers = view.space.levers
    if least_layers_that_fit(view) is None:
        return levers
    return tuple(sorted(levers, key=lambda lever: lever != PRUNING))


def _within_budget(view: CampaignView, ideas: list[Idea]) -> list[Idea]:
    """The ideas, each that is refused with the fewest layers removed that bring it within the budget, where
    the incumbent itself is above it; elsewhere as they are."""
    if least_layers_that_fit(view) is None:
        return ideas
    found = []
    for idea in ideas:
        refusal = view.refused(idea.candidate)
        if refusal is None:
            found.append(idea)
            continue
        why = f"{idea.rationale} {refusal} The fewest layers that bring it within the budget go with it."
        found += [
            replace(idea, candidate=paid, rationale=why)
            for paid in with_pruning_that_pays(view.space, view.refused, idea.candidate)
        ]
    return found


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


def _dtype(view: CampaignView, step: StepProfile | None) -> list[Idea]:
    """Bytes are what a number format saves; worth more the nearer the step is to the memory's speed."""
    if step is None:
        why = "A narrower number format halves the bytes of a step."
    else:
        why = (
            f"A step reads {step.weight_bytes / 1e6:.1f} MB of weights in {step.tpot_ms:.2f} ms, "
            f"{step.gb_per_s:.2f} GB/s, and another number format changes those bytes and the kernels."
        )
    return [Idea(candidate, why) for candidate in other_values(view, "dtype")]


def _threads(view: CampaignView, step: StepProfile | None) -> list[Idea]:
    """The neighbours of the incumbent's number of threads."""
    ideas = []
    for knob in view.space.active(view.incumbent):
        if knob.lever != "threads":
            continue
        now = view.incumbent[knob.name]
        at = next(k for k, value in enumerate(knob.values) if same_value(value, now))
        for value in knob.values[max(0, at - 1) : at + 2]:
            candidate = None if same_value(value, now) else changed(view, {knob.name: value})
            if candidate is not None:
                why = (
                    f"The incumbent runs {now} threads on {view.cores} cores; small operations gain from "
                    "fewer, large ones from more, and what suits changes with every other lever."
                )
                ideas.append(Idea(candidate, why))
    return ideas


def _value_by_value(view: CampaignView, lever: str) -> list[Idea]:
    why = f"No rule knows the lever {lever}; its effect here is not known until it is measured."
    return [Idea(candidate, why) for candidate in other_values(view, lever)]


def _largest(shares: Mapping[str, float], most: int = 3) -> list[tuple[str, float]]:
    return sorted(shares.items(), key=lambda share: (-share[1], share[0]))[:most]


def _allowed(view: CampaignView, candidate: Configuration) -> bool:
    levers = set(view.space.levers_between(view.incumbent, candidate))
    if changes_noise(view.incumbent, candidate):
        return False
    if already_runs(view, candidate):
        return False
    return not view.banned_levers & levers and view.refused(candidate) is None


def _best_first(view: CampaignView, ideas: Iterable[Idea]) -> list[Idea]:
    found = list(ideas)
    beliefs = [predict(view, idea.candidate, idea.metric) for idea in found]
    gains = expected_gain(
        np.array([belief.log_ratio_mean for belief in beliefs]),
        np.array([belief.log_ratio_sd for belief in beliefs]),
    )
    order = sorted(range(len(found)), key=lambda k: (-float(gains[k]), found[k].candidate.digest))
    return [found[k] for k in order]


def _draft(view: CampaignView, idea: Idea) -> Draft:
    rationale = f"{idea.rationale} Surrogate: {predicted(view, idea.candidate, idea.metric)}."
    return draft_of(
        view,
        idea.candidate,
        proposer=RulesProposer.name,
        rationale=rationale,
        parents=idea.parents,
        metric=idea.metric,
    )
