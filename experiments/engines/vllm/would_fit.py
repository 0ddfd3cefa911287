"""What would fit of a configuration on a GPU that it does not fit on, before vLLM loads and after it failed.

By the plan, guesses included (`needed_memory`); what is named is legal for the checkpoint in the packaged
space of this engine and serves the workload.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from configs.errors import AutoinferError, UsageError
from configs.models import ModelProfile
from experiments.engines.hybrid_cache import draft_tokens
from experiments.engines.launch_memory import Part, needed_bytes
from experiments.engines.port import Infeasible
from experiments.engines.reference.shape import read_profile
from experiments.engines.single_changes import sentence, single_changes
from experiments.engines.vllm.needed_memory import packing_at, part_counter, stored_bytes
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.gpu import Gpu
from experiments.space.gpu_rules import not_known_on, not_served_by
from experiments.space.legality import (
    QUANTIZATION,
    UNQUANTIZED,
    ModelFacts,
    joint_refusal,
    legal_levers,
    with_stored_kernels,
)
from experiments.space.loading import load_space
from experiments.space.space import Space
from experiments.space.workload_rules import not_served_at, with_all_positions

SPACE = "vllm"
"""The packaged space of this engine."""


@dataclass(frozen=True)
class Place:
    """Where it is to fit: a checkpoint on a card of so many bytes (None: not known), with requests of
    `context_tokens`, `concurrency` at once, and documents of `scored_tokens`; `gpu` decides what is served
    there at all (None: not known)."""

    checkpoint: Path
    memory_bytes: int | None
    context_tokens: int = 1
    concurrency: int = 1
    gpu: Gpu | None = None
    scored_tokens: int = 0

    def counter(self, configuration: Configuration) -> Callable[[Configuration], tuple[Part, ...]]:
        """Counts the parts of a launch here (`part_counter`)."""
        return part_counter(
            self.checkpoint, self.context_tokens, self.memory_bytes, configuration, self.scored_tokens
        )


def would_fit(configuration: Configuration, place: Place, usable_bytes: int, launches: int = 1) -> str | None:
    """What single changes fit into `usable_bytes`, or that none does, in a sentence; None for a
    configuration that is not of the engine's packaged space, of which nothing is known.

    Raises `Infeasible` for a checkpoint or a drafter that can't be read.
    """
    count = _bytes_of(place.counter(configuration), launches)
    return _told(configuration, place, count, usable_bytes, launches)


def with_what_would_fit(
    failure: Infeasible, configuration: Configuration, place: Place, free_bytes: int | None
) -> Infeasible:
    """The failure of a load, with what would fit where its figures are known.

    `free_bytes` were free before it. It failed although the plan may have had room (it guesses, and another
    launch may have been beside): what is named takes less than the plan had for it by what was missing at
    least, and no more than was free. Pruning and quantization are in the checkpoint by then.
    """
    if failure.kind != "out_of_memory" or failure.missing_bytes is None:
        return failure
    staged = Configuration.of({k: v for k, v in configuration.items() if not k.startswith("pruning.")})
    try:
        count = _bytes_of(place.counter(staged), 1)
    except (Infeasible, AutoinferError):  # what can't be counted keeps its cause
        return failure
    usable = count(staged) - failure.missing_bytes
    told = _told(staged, place, count, usable if free_bytes is None else min(usable, free_bytes), 1)
    cause = failure.cause if told is None else f"{failure.cause} {told}"
    return Infeasible(failure.kind, cause, failure.missing_bytes)


def _not_sure_on(
    gpu: Gpu, space: Space, profile: ModelProfile, configuration: Configuration
) -> dict[tuple[str, KnobValue], str]:
    """What is not served on a GPU, and of what beside the configuration's own values that is not known:
    neither is named as a way out."""
    doubted = not_known_on(space, profile, gpu).items()
    elsewhere = {(knob, value): why for (knob, value), why in doubted if configuration.get(knob) != value}
    return {**elsewhere, **not_served_by(space, profile, gpu)}


def _bytes_of(
    parts: Callable[[Configuration], tuple[Part, ...]], launches: int
) -> Callable[[Configuration], int]:
    """Bytes that so many launches take."""
    return lambda each: launches * needed_bytes(parts(each))


def _told(
    configuration: Configuration,
    place: Place,
    needed: Callable[[Configuration], int],
    usable_bytes: int,
    launches: int,
) -> str | None:
    plain = configuration.get(QUANTIZATION, UNQUANTIZED) == UNQUANTIZED
    profile = read_profile(place.checkpoint)
    tokens = place.context_tokens + draft_tokens(configuration)
    packing = packing_at(place.checkpoint) if plain else None
    space = with_stored_kernels(load_space(SPACE), packing)
    if profile.experts is not None:
        space = space.of_experts()
    if profile.max_positions is not None:
        space = with_all_positions(space, profile.max_positions, tokens)
    facts = ModelFacts.of(
        profile,
        not_served={
            **not_served_at(space, place.concurrency, tokens),
            **({} if place.gpu is None else _not_sure_on(place.gpu, space, profile, configuration)),
        },
        stored_quantized=plain and stored_bytes(place.checkpoint) is not None,
        packing=packing,
        gpu=place.gpu,
    )
    before = joint_refusal(configuration, facts)

    def refused(each: Configuration) -> str | None:
        why = joint_refusal(each, facts)
        return None if why == before else why  # what is against it anyhow is no matter of the change

    try:
        tried = single_changes(legal_levers(space, facts)[0], configuration, needed, usable_bytes, refused)
    except UsageError:
        return None
    return sentence(tried, usable_bytes, launches)
