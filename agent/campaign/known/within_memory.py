"""What a campaign may ask for, less what its memory never holds.

Looked at where the target's memory is known, which is a GPU's, and where the campaign may take no more than
it says (`memory`). Elsewhere the engine's own check says it, before anything is loaded.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Protocol

from agent.ground.legal import Legal, gpu_known, legal_here
from agent.ground.stored_checkpoint import check_here
from agent.plan.at_once import parts_on
from agent.plan.card import Card
from agent.plan.model import model_in
from agent.plan.start import figures
from configs.campaign import CampaignSpec
from experiments.engines.launch_memory import needed_bytes
from experiments.measurement.plan import Workload
from experiments.space.configuration import Configuration


class Ground(Protocol):
    """What it needs to know of a campaign: its spec on the terms of now, the model's folder, what was found
    where it runs (None: not known), and what trial 0 begins from, where the engine's own default does not
    fit."""

    @property
    def spec(self) -> CampaignSpec:
        """What was asked for, on the terms of now."""

    @property
    def checkpoint(self) -> Path:
        """The folder of the model."""

    @property
    def cores(self) -> int:
        """Processors of the target."""

    @property
    def compute_capability(self) -> str | None:
        """Of the target's GPU."""

    @property
    def gpu_memory_bytes(self) -> int | None:
        """The same."""

    @property
    def gpu_name(self) -> str | None:
        """What its driver calls it."""

    @property
    def auto_step_tokens(self) -> int | None:
        """How many tokens a step had in trial 0, where that was left to the server and told."""

    @property
    def start(self) -> Configuration | None:
        """What trial 0 begins from in place of the engine's default."""


def legal_of(ground: Ground) -> Legal:
    """What the campaign may ask for on its ground, with its memory; raises as `legal_here`, and
    `CheckpointElsewhere` where its checkpoint is not on this machine."""
    check_here(ground.checkpoint)
    spec = ground.spec
    gpu = gpu_known(
        spec, ground.compute_capability, ground.gpu_memory_bytes, ground.gpu_name, ground.auto_step_tokens
    )
    legal = legal_here(spec, ground.checkpoint, ground.cores, gpu)
    limit = spec.memory
    memory = ground.gpu_memory_bytes
    if memory is None and limit is None:
        return legal
    model = model_in(spec.model, ground.checkpoint)
    context = Workload.model_validate(spec.plan.workload.model_dump()).context_tokens
    card = Card("", memory or 0, is_gpu=memory is not None)

    @cache
    def never_fits(each: Configuration) -> str | None:
        parts = parts_on(spec, model, card, each, context)
        if limit is not None and (needed := needed_bytes(parts)) > limit:
            return f"By count it does not fit: {figures(needed, limit)}."
        # of the card itself by what is certain: whether the guesses leave room is known when it loads
        least = needed_bytes(part for part in parts if not part.guessed)
        if memory is not None and least > memory:
            return f"It never fits: {figures(least, memory)}."
        return None

    return replace(legal, refused=lambda each: legal.refused(each) or never_fits(each))
