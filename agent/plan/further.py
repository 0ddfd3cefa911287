"""Further workloads of a campaign before it begins: whether what it begins from serves them. Pure.

They are measured in launches that are up for the plan's own workload, so that nothing makes room for them:
one that does not fit into what the campaign begins from is refused, and none is a reason to begin from
something else. A candidate that serves fewer, or shorter ones, is told of beside its verdict.
"""

from __future__ import annotations

from collections.abc import Iterator

from agent.plan.at_once import IN_TURN, parts_on, usable_on
from agent.plan.card import Card
from agent.plan.model import ModelFound
from agent.plan.start import figures
from configs.campaign import CampaignSpec
from configs.campaign_plan import FurtherWorkloadSpec
from experiments.engines.launch_memory import needed_bytes
from experiments.measurement.plan import FurtherWorkload, Workload
from experiments.space.configuration import Configuration
from experiments.space.workload_rules import unserved


def further_of(spec: CampaignSpec) -> tuple[FurtherWorkload, ...]:
    """The campaign's further workloads, as jobs have them."""
    return tuple(FurtherWorkload.model_validate(each.model_dump()) for each in spec.further)


def own_words(spec: CampaignSpec) -> str:
    """The plan's own workload in the words of further ones: `4 requests at once of 512 + 128 tokens`."""
    own = FurtherWorkloadSpec().beside(spec.plan.workload)
    return FurtherWorkload.model_validate(own.model_dump()).words


def unserved_further(
    spec: CampaignSpec, model: ModelFound, card: Card, begun: Configuration, at_once: int | None
) -> Iterator[tuple[int, FurtherWorkload, str]]:
    """Each further workload that a launch of what the campaign begins from does not serve, with its place in
    the list and why, in a sentence."""
    for place, each in enumerate(further_of(spec)):
        why = unserved(begun, each.concurrency, each.context_tokens) or _no_room(
            spec, model, card, begun, each, at_once
        )
        if why is not None:
            yield place, each, why


def _no_room(
    spec: CampaignSpec,
    model: ModelFound,
    card: Card,
    begun: Configuration,
    further: FurtherWorkload,
    at_once: int | None,
) -> str | None:
    """Why it has no room by the plan's count, beside the pair's other launch where both are up; None where it
    has, and where not even the plan's own workload has: that the user asked for all the same."""
    usable = usable_on(card)
    own = Workload.model_validate(spec.plan.workload.model_dump())
    ours = needed_bytes(parts_on(spec, model, card, begun, own.context_tokens))
    if ours > usable:
        return None
    beside = 0 if at_once == IN_TURN or 2 * ours > usable else ours
    workload = spec.plan.workload.model_copy(update={"concurrency": further.concurrency})
    asked = spec.model_copy(update={"plan": spec.plan.model_copy(update={"workload": workload})})
    needed = beside + needed_bytes(parts_on(asked, model, card, begun, further.context_tokens))
    if needed <= usable:
        return None
    other = " with the other launch of its pair" if beside else ""
    return f"{further.words} do not fit{other}: {figures(needed, usable)}."
