"""How many launches of a test may be up at once, where an arm takes more memory than what the campaign began
from.

A campaign counts that once, for its default (`agent/plan/at_once.py`). A candidate that needs more, such as a
drafter's weights, may not fit a GPU beside its control: then the launches of its test run in turn, and where
fewer pairs fit than the campaign has up otherwise, so many are. Counted is the memory plan, guesses included,
of the GPU's whole memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from agent.campaign.known.facts import Facts
from agent.plan.at_once import TEST_LAUNCHES, launches_of_test
from agent.plan.card import Card, limited
from agent.plan.model import model_in
from experiments.measurement.plan import Workload
from experiments.space.configuration import Configuration

Room = Callable[[Configuration, Configuration], int | None]
"""How many launches of a test, of this control and this candidate, may be up at once; 1: in turn; None: as
many as a step asks for."""


def room_of(facts: Facts) -> Room:
    """Counts it on the campaign's GPU, never more than the campaign has up; what the campaign has up where
    that is in turn already, or the GPU's memory is not known."""
    most, memory = facts.at_once, facts.gpu_memory_bytes
    if memory is None or facts.in_turn:
        return lambda control, candidate: most
    spec, card = facts.spec, limited(Card("", memory), facts.spec.memory)
    model = model_in(spec.model, facts.checkpoint)
    context = Workload.model_validate(spec.plan.workload.model_dump()).context_tokens

    @cache
    def count(control: Configuration, candidate: Configuration) -> int | None:
        found = launches_of_test(spec, model, card, (control, candidate), context)
        if found is None or (most is not None and most // TEST_LAUNCHES <= found // TEST_LAUNCHES):
            return most
        return found

    return count


def with_room(facts: Facts, control: Configuration, candidate: Configuration) -> Facts:
    """The campaign as a test of these arms goes by it: with as many launches up as there is room for."""
    at_once = room_of(facts)(control, candidate)
    return facts if at_once == facts.at_once else replace(facts, at_once=at_once)
