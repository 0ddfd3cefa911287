"""How many launches of a test may be up at once, where an arm takes more memory than what the campaign began
from.

A campaign counts that once, for its default (`agent/plan/at_once.py`). A candidate that needs more, such as a
drafter's weights, may fit a card once and not twice: then the launches of its test run in turn, and where
fewer fit than the campaign has up otherwise, so many are. Counted is the memory plan, guesses included, of
the card as the baseline found it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache

from agent.campaign.known.facts import Facts
from agent.ground.checkpoint import Checkpoint
from agent.plan.at_once import fewest, launches_at_once
from agent.plan.card import Card, limited
from agent.plan.model import model_at
from experiments.measurement.plan import Workload
from experiments.space.configuration import Configuration

AtOnce = Callable[[Configuration], int | None]
"""How many launches of a configuration may be up at once; 1: in turn; None: as many as a step asks for."""


def at_once_of(facts: Facts) -> AtOnce:
    """Counts it on the campaign's GPU, never more than the campaign has up; what the campaign has up where
    that is asked for, is in turn already, or the GPU's memory is not known."""
    most, memory = facts.at_once, facts.gpu_memory_bytes
    if memory is None or facts.in_turn or facts.spec.launches != "auto":
        return lambda _: most
    spec, card = facts.spec, limited(Card("", memory), facts.spec.memory)
    model = model_at(spec.model, Checkpoint(facts.checkpoint))
    context = Workload.model_validate(spec.plan.workload.model_dump()).context_tokens

    @cache
    def count(each: Configuration) -> int | None:
        return fewest((most, launches_at_once(spec, model, card, each, context)))

    return count


def with_room(facts: Facts, arms: Iterable[Configuration]) -> Facts:
    """The campaign as a test of these arms goes by it: with as many launches up as each of them has room
    for."""
    count = at_once_of(facts)
    at_once = fewest((facts.at_once, *map(count, arms)))
    return facts if at_once == facts.at_once else replace(facts, at_once=at_once)
