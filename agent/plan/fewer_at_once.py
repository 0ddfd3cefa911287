"""With how many requests at once a campaign could begin on a card that has no room for its workload's."""

from __future__ import annotations

from agent.ground.positions import space_on
from agent.plan.card import Card
from agent.plan.legal_planned import planned_legal
from agent.plan.model import ModelFound
from agent.plan.starting import start_on
from configs.campaign import CampaignSpec
from experiments.measurement.plan import Workload
from experiments.space.workload_rules import MAX_SEQUENCES

ALONE = 1


def fewer_at_once(spec: CampaignSpec, model: ModelFound, card: Card, cores: int | None) -> int | None:
    """The most requests at once, fewer than the workload's, with which something fits that a campaign may
    begin from: of those for which the space keeps room; None where there are none such."""
    plan, workload = spec.plan, spec.plan.workload
    offered = {
        value
        for knob in space_on(spec, model.profile, model.packing).knobs
        for value in knob.values
        if knob.name == MAX_SEQUENCES and isinstance(value, int) and value < workload.concurrency
    }
    for count in sorted(offered | {ALONE}, reverse=True):
        if count >= workload.concurrency:
            continue
        fewer = workload.model_copy(update={"concurrency": count})
        asked = spec.model_copy(update={"plan": plan.model_copy(update={"workload": fewer})})
        legal = planned_legal(asked, model, card, cores)
        context = Workload.model_validate(fewer.model_dump()).context_tokens
        if start_on(asked, model, card, legal, context).fits:
            return count
    return None


def fewer_told(count: int | None) -> tuple[str, ...]:
    """What to say of it, as sentences; nothing of None."""
    if count is None:
        return ()
    requests = "1 request" if count == ALONE else f"{count} requests"
    return (
        f"With {requests} at once a campaign can begin here (--concurrency {count}; in a campaign's file "
        "plan.workload.concurrency).",
    )
