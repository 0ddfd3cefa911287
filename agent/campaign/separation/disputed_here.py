"""A dispute about a change that nobody measured here: the change itself is what to test.

It may be between verdicts that were imported, or between those and what the user wrote down. It is asked here
where one side speaks of this campaign's model, engine, metric and workload, of its own target first, and else
of another one: then the hardware is all that is another here. What is ruled out here is not asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent.campaign.decision.desk import Desk
from agent.campaign.known.ruled_out import differs_from
from agent.campaign.known.settling import settled
from agent.campaign.queue.order import with_reason
from agent.proposers.dispute import Unmeasured, arms_here, try_here
from agent.proposers.port import Draft
from db.models import Campaign
from experiments.space.configuration import Configuration
from knowledge.findings.disputes import Claim, Dispute, same_change
from knowledge.stored import metric_of


def draft_here(desk: Desk, campaign: Campaign, dispute: Dispute, measured: Sequence[Claim]) -> Draft | None:
    """Return the test of a disputed change here; None where it is among what was `measured` here or is ruled
    out, where no side is near enough, and where this space can't have it."""
    near = [(distance(each.scope, desk, campaign), each) for each in dispute.sides]
    sides = sorted(
        ((far, each) for far, each in near if far is not None), key=lambda pair: (pair[0], pair[1].is_told)
    )
    if not sides or any(same_change(each, dispute.one) for each in measured):
        return None
    for _, side in sides:
        found = _unmeasured(dispute, side, desk, campaign)
        arms = arms_here(desk.legal.space, found, desk.incumbent.configuration, refused=desk.legal.refused)
        if arms is None:
            continue
        if desk.spoken_against(*arms) is not None:
            return None
        plan = desk.facts.spec.plan
        draft = try_here(
            desk.legal.space, found, arms, desk.beliefs.predict, desk.facts.objective, plan.min_effect
        )
        return with_reason(desk, draft)
    return None


def distance(scope: Mapping[str, Any], desk: Desk, campaign: Campaign) -> int | None:
    """Return 0 for a scope of this campaign's model, target, engine, workload and metric, 1 for one that
    differs by its target alone, None for any other; what the user left open differs by nothing."""
    spec = desk.facts.spec
    if scope.get("engine", spec.engine) != spec.engine or not scope.get("change"):
        return None
    if "metric" in scope and metric_of(scope) != desk.facts.objective:
        return None
    named = scope.get("model_fingerprint") or (
        campaign.model_fingerprint if scope.get("model") == campaign.model else ""
    )
    differs = differs_from({**scope, "model_fingerprint": named}, campaign, spec)
    if not differs:
        return 0
    return 1 if [each.there for each in differs] == [scope["target"]] else None


def _unmeasured(dispute: Dispute, side: Claim, desk: Desk, campaign: Campaign) -> Unmeasured:
    """The change as that side has it; of what the user told no configuration is known."""
    space, change = desk.facts.spec.space, side.scope["change"]
    changed = {each["knob"]: each["after"] for each in change if each["after"] is not None}
    control = candidate = None
    if not side.is_told:
        known = dict(side.scope.get("control") or {})
        dropped = {each["knob"] for each in change if each["after"] is None}
        kept = {name: value for name, value in known.items() if name not in dropped}
        control = settled(Configuration.of(known), space)
        candidate = settled(Configuration.of({**kept, **changed}), space)
    return Unmeasured(dispute.question(), campaign.target, changed, control, candidate)
