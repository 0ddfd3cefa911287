"""Rules that take turns: from lists of ideas to drafts, the largest expected gain of each first. Pure.

A rule is a list of ideas and the proposer that they are of. The rules take turns, so that a short list has
something of every kind; an idea that another rule had already, that is refused or banned, that only draws
the same thing anew or names what the incumbent runs by itself, is passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from agent.proposers.already_runs import already_runs, measured_as
from agent.proposers.draft import draft_of, expected_gains, predict, predicted
from agent.proposers.idea import Idea
from agent.proposers.port import CampaignView, Draft
from agent.proposers.pruning_rule import least_layers_that_fit
from agent.surrogate.levers import changes_noise
from experiments.space.budget import with_pruning_that_pays
from experiments.space.configuration import Configuration


@dataclass(frozen=True)
class Rule:
    """What a rule thinks of now, and the proposer it belongs to."""

    proposer: str
    ideas: Sequence[Idea]


def in_turns(view: CampaignView, rules: Iterable[Rule], count: int) -> list[Draft]:
    """At most `count` drafts of the rules, in turns and in the order given, the best of each first."""
    lines = [(rule.proposer, _best_first(view, rule.ideas)) for rule in rules]
    drafts: list[Draft] = []
    seen = set(view.taken) | {view.incumbent.digest}
    while any(line for _, line in lines) and len(drafts) < count:
        for proposer, line in lines:
            while line:
                idea = line.pop(0)
                if idea.candidate.digest not in seen and _allowed(view, idea.candidate):
                    seen.add(idea.candidate.digest)
                    drafts.append(_draft(view, idea, proposer))
                    break
            if len(drafts) == count:
                break
    return drafts


def strongest_first(view: CampaignView, rules: Iterable[Rule]) -> list[Rule]:
    """The rules by the largest expected gain of any of their ideas that may be proposed, so that a proposer
    with few turns spends them where most is expected; equal ones as they came."""

    def most(rule: Rule) -> float:
        open_ideas = [
            idea
            for idea in rule.ideas
            if idea.candidate.digest not in view.taken and _allowed(view, idea.candidate)
        ]
        return max(_gains(view, open_ideas), default=0.0)

    return sorted(rules, key=lambda rule: -most(rule))


def within_budget(view: CampaignView, ideas: Sequence[Idea]) -> list[Idea]:
    """The ideas, each that is refused with the fewest layers removed that bring it within the budget, where
    the incumbent itself is above it; elsewhere as they are."""
    if least_layers_that_fit(view) is None:
        return list(ideas)
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


def _allowed(view: CampaignView, candidate: Configuration) -> bool:
    levers = set(view.space.levers_between(view.incumbent, candidate))
    if view.banned_levers & levers or changes_noise(view.incumbent, candidate):
        return False
    if view.refused(candidate) is not None or already_runs(view, candidate):
        return False
    return measured_as(view, candidate) is None  # last: it looks at every trial


def _gains(view: CampaignView, ideas: Sequence[Idea]) -> list[float]:
    return expected_gains(view, [(predict(view, each.candidate, each.metric), each.metric) for each in ideas])


def _best_first(view: CampaignView, ideas: Sequence[Idea]) -> list[Idea]:
    gains = _gains(view, ideas)
    order = sorted(range(len(ideas)), key=lambda k: (-gains[k], ideas[k].candidate.digest))
    waiting, found = [ideas[k] for k in order], list[Idea]()
    while waiting:
        idea = waiting.pop(0)
        found.append(idea)
        behind = [each for each in waiting if each.behind == idea.candidate]
        if behind:
            waiting = [*behind, *(each for each in waiting if each.behind != idea.candidate)]
    return found


def _draft(view: CampaignView, idea: Idea, proposer: str) -> Draft:
    rationale = f"{idea.rationale} Surrogate: {predicted(view, idea.candidate, idea.metric)}."
    draft = draft_of(
        view,
        idea.candidate,
        proposer=proposer,
        rationale=rationale,
        parents=idea.parents,
        metric=idea.metric,
    )
    if idea.as_found:
        draft = replace(draft, claim=f"{draft.claim.removesuffix('.')}, {idea.as_found}.")
    return replace(draft, builds_on=idea.builds_on)
