"""What a campaign may ask for, as far as it can be told before its weights are here."""

from __future__ import annotations

from dataclasses import replace

from agent.ground.drafter import drafter_of
from agent.ground.legal import (
    Legal,
    drafter_parameters,
    gpu_served,
    legal_here,
    most_packaged,
    not_pruned,
    not_served_on,
    packaged_methods,
    same_for,
    unsure_on,
    writing_memory,
)
from agent.ground.positions import space_on
from agent.plan.card import Card
from agent.plan.model import ModelFound, packaged_with
from configs.campaign import CampaignSpec
from experiments.space.budget import ParameterBudget
from experiments.space.configuration import Configuration
from experiments.space.legality import ModelFacts, joint_refusal, legal_levers
from experiments.space.writing_rules import writing_refused


def planned_legal(spec: CampaignSpec, model: ModelFound, card: Card, cores: int | None) -> Legal:
    """What may be asked for: by the checkpoint where it is here, else by its shape alone."""
    space = space_on(spec, model.profile, model.packing)
    gpu = card.served(gpu_served(spec, card.compute_capability)) if card.is_gpu else None
    if model.folder is not None and cores is not None:
        return legal_here(spec, model.folder, cores, gpu)
    packaged = packaged_with(model, made_up=spec.latency_only)
    facts = ModelFacts.of(
        model.profile,
        packaged_drafters=packaged_methods(packaged),
        most_draft_tokens=most_packaged(packaged),
        not_served={
            **not_served_on(spec, space, model.profile, gpu),
            **not_pruned(space, model.unread),
        },
        same=same_for(spec, space, model.profile, gpu),
        cores=cores,
        drafter=drafter_of(spec),
        stored_quantized=model.quantized,
        packing=model.packing,
        gpu=gpu,
    )
    left, withheld = legal_levers(space, facts)
    limit = spec.parameter_budget
    budget = None if limit is None else ParameterBudget.of(model.profile, limit, drafter_parameters={})

    writing = writing_memory(spec, gpu)

    def refused(each: Configuration) -> str | None:
        reason = joint_refusal(each, facts) or writing_refused(each, model.profile, writing)
        if reason is not None or budget is None:
            return reason
        return replace(budget, drafter_parameters=drafter_parameters(each, packaged)).refusal(each)

    unsure = unsure_on(spec, left, model.profile, gpu)
    return Legal(left, withheld, refused, model.profile, unsure, model.packing)
