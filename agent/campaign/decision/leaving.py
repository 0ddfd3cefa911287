"""What leaves the queue because the agent would not propose it now, and what is not proposed at all. Pure."""

from __future__ import annotations

from collections.abc import Collection

from agent.campaign.known.facts import Facts, Queued
from agent.campaign.known.incumbent import Incumbent
from agent.campaign.known.ruled_out import rules_out
from agent.proposers.confirmation import PROPOSER as CONFIRMATION
from agent.proposers.dispute import PROPOSER as DISPUTE
from agent.proposers.pruning_rule import losing
from agent.proposers.separation import PROPOSER as SEPARATION
from agent.proposers.user import was_asked_for
from db.labels import Noun, format_label
from experiments.space.configuration import Configuration

QUESTIONS = "questions"
"""The proposer of what the campaign's file asks."""


def leaving(facts: Facts, best: Incumbent, settling: Collection[int], trust: float) -> dict[int, str]:
    """What the agent proposed and would not propose now, by hypothesis, with the reason as a clause: on a
    configuration that is no longer the best, or with layers that a verdict speaks against. What settles a
    question stays; `trust` is the weight of what other campaigns told."""
    found = {}
    for each in facts.queue:
        kept = each.pinned or each.target or each.id in settling
        kept = kept or was_asked_for(each.proposer)
        if not kept and each.proposer not in (QUESTIONS, SEPARATION, DISPUTE):
            why = _why_it_leaves(facts, best, trust, each)
            if why is not None:
                found[each.id] = why
    return found


def _why_it_leaves(facts: Facts, best: Incumbent, trust: float, hypothesis: Queued) -> str | None:
    confirms = hypothesis.proposer == CONFIRMATION
    if (hypothesis.candidate if confirms else hypothesis.control) != best.configuration:
        what = (
            "the baseline"
            if best.hypothesis_id is None
            else format_label(Noun.HYPOTHESIS, best.hypothesis_id)
        )
        return f"{what} is the best now, and changes are proposed on top of it"
    if confirms:
        return None
    return spoken_against(facts, trust, hypothesis.control, hypothesis.candidate)


def spoken_against(
    facts: Facts, trust: float, control: Configuration, candidate: Configuration
) -> str | None:
    """What tells already that a change is not worth a test, as a clause: a finding of this very scope, or a
    verdict by which it loses the quality; None where nothing does."""
    ruled = rules_out(facts.ruled_out, control, candidate, trust)
    if ruled is not None:
        return f"{ruled.finding} says that it {ruled.says} here, and nothing of its scope differs"
    if not any(each.knob.startswith("pruning.") for each in control.changes_to(candidate)):
        return None
    against = losing(facts.trials, facts.model_layers, candidate, facts.spec.plan.min_effect)
    if not against:
        return None
    label = format_label(Noun.HYPOTHESIS, against[-1].hypothesis_id)
    return f"{label} lost the quality with layers that it takes too"
