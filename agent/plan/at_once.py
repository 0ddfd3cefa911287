"""How many launches of a campaign may be up at once on its target: what the memory plan says of its default.

A test has two launches up, control and candidate, and times them side by side; a baseline has as many as it
takes noise launches. On a card that holds a model once and not twice, launches run in turn instead: each is
loaded, timed and ended before the next one, the two of a pair as neighbours in time. Pure but for what it is
given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

from agent.ground.legal import drafter_cache, drafter_parameters
from agent.plan.card import Card
from agent.plan.memory import usable_bytes
from agent.plan.model import ModelFound, packaged_with
from agent.plan.processor_memory import dense_parts
from configs.campaign import CampaignSpec
from configs.models import BFLOAT16_BYTES, ModelProfile
from configs.quantities import format_bytes
from experiments.engines.launch_memory import Asked, Part, launch_parts, needed_bytes
from experiments.job.named import serves_packed
from experiments.space.configuration import Configuration

TEST_LAUNCHES = 2
"""Launches that a test has up side by side."""

IN_TURN = 1

MOST_COUNTED = 4096
"""Launches whose parts are kept: a plan asks of the same ones again and again, for each of a space's values
and for each card of one size."""

THIS_IN_TURN = (
    "A test of this configuration runs in turn, for it does not fit beside the baseline: each launch is "
    "loaded, timed and ended before the next."
)
"""What to say of one that needs more than the baseline, whose launches are up side by side."""


def parts_on(
    spec: CampaignSpec, model: ModelFound, card: Card, configuration: Configuration, context_tokens: int
) -> tuple[Part, ...]:
    """What a launch of the configuration takes on the card, part by part."""
    return launches_on(spec, model, card)(configuration, context_tokens)


def launches_on(
    spec: CampaignSpec, model: ModelFound, card: Card
) -> Callable[[Configuration, int], tuple[Part, ...]]:
    """As `parts_on`, of each configuration at a context of so many tokens: for who asks of many."""
    packaged = packaged_with(model, made_up=spec.latency_only)
    packed, workload = serves_packed(spec.engine), spec.plan.workload
    scored = 0 if spec.latency_only else workload.evaluation_tokens_per_document

    def parts(configuration: Configuration, context_tokens: int) -> tuple[Part, ...]:
        asked = Asked(
            context_tokens,
            workload.concurrency,
            model.stored_bytes,
            BFLOAT16_BYTES * sum(drafter_parameters(configuration, packaged).values()),
            card.memory_bytes if card.is_gpu else None,
            graphs=card.is_gpu,
            scored_tokens=scored,
            drafter=drafter_cache(configuration, packaged),
        )
        return _counted(model.profile, configuration, asked, packed=packed)

    return parts


@lru_cache(maxsize=MOST_COUNTED)
def _counted(
    profile: ModelProfile, configuration: Configuration, asked: Asked, *, packed: bool
) -> tuple[Part, ...]:
    return (launch_parts if packed else dense_parts)(profile, configuration, asked)


def usable_on(card: Card) -> int:
    """Bytes of the card that launches may take."""
    usable = usable_bytes(card.memory_bytes, card.free_bytes) if card.is_gpu else card.free_bytes or 0
    return usable if card.limit_bytes is None else min(usable, card.limit_bytes)


def launches_at_once(
    spec: CampaignSpec, model: ModelFound, card: Card, default: Configuration, context_tokens: int
) -> int | None:
    """The most launches that may be up at once; 1: in turn; None: as many as a step asks for.

    What the campaign's `launches` says, or, where that is `auto`, by the memory of launches of `default`: of
    a GPU as many as fit, of a processor either 1 or None.
    """
    if spec.launches != "auto":
        return IN_TURN if spec.launches == "in_turn" else None
    needed = needed_bytes(parts_on(spec, model, card, default, context_tokens))
    fit = usable_on(card) // needed
    if fit < TEST_LAUNCHES:
        return IN_TURN
    return fit if card.is_gpu else None


def launches_of_test(
    spec: CampaignSpec, model: ModelFound, card: Card, arms: Iterable[Configuration], context_tokens: int
) -> int | None:
    """As `launches_at_once`, of a test of these arms: of a GPU as many pairs as fit, and in turn where it
    does not hold what is certain of one arm twice, for its engine asks for that much."""
    if spec.launches != "auto":
        return IN_TURN if spec.launches == "in_turn" else None
    parts = [parts_on(spec, model, card, each, context_tokens) for each in arms]
    needed = [needed_bytes(each) for each in parts]
    if not card.is_gpu:
        return None if TEST_LAUNCHES * max(needed) <= usable_on(card) else IN_TURN
    pairs = usable_on(card) // sum(needed)
    certain = max(needed_bytes(part for part in each if not part.guessed) for each in parts)
    return TEST_LAUNCHES * pairs if pairs and TEST_LAUNCHES * certain <= card.memory_bytes else IN_TURN


def at_once_told(at_once: int | None, needed_bytes: int, usable: int, *, asked: bool) -> str | None:
    """What to say of launches in turn, in a sentence; None where they are side by side."""
    if at_once != IN_TURN:
        return None
    why = (
        "as the campaign's `launches` asks"
        if asked
        else f"because two of {format_bytes(needed_bytes)} are more than the {format_bytes(usable)} that may "
        "be taken"
    )
    return (
        f"Launches run in turn, {why}: each is loaded, timed and ended before the next, so that a pair takes "
        "two loads, and what drifts meanwhile widens the interval: a test may need more pairs."
    )
