"""What a campaign begins from on a card: the rule of `start`, with what the plan counts of memory."""

from __future__ import annotations

from dataclasses import replace

from agent.ground.legal import Legal
from agent.plan.at_once import launches_on, usable_on
from agent.plan.card import Card
from agent.plan.model import ModelFound
from agent.plan.start import Room, Start, find_start
from agent.plan.tools_there import MadeOn, cannot_quantize
from configs.campaign import CampaignSpec
from configs.errors import UsageError
from configs.quantities import format_bytes
from experiments.engines.launch_memory import needed_bytes
from experiments.space.configuration import Configuration
from experiments.telemetry.identity import BUSY_SHARE


def _in_use(card: Card) -> str:
    """What to do about a GPU of which others hold a part, so that less of it may be taken; empty of one that
    is free or not here."""
    if not (card.is_gpu and card.here) or card.free_bytes is None:
        return ""
    used = card.memory_bytes - card.free_bytes
    if used <= BUSY_SHARE * card.memory_bytes or usable_on(card) < card.free_bytes:
        return ""
    return (
        f" {format_bytes(used)} of its {format_bytes(card.memory_bytes)} are in use: end what uses them "
        "(autoinfer devices), and more may be taken."
    )


def _told_in_use(start: Start, card: Card) -> Start:
    """The start, and what comes after it, with what is in use of a card that has no room for the default."""
    if start.told is None or start.default_bytes <= usable_on(card):
        return start
    then = None if start.then is None else _told_in_use(start.then, card)
    return replace(start, told=start.told + _in_use(card), then=then)


def start_on(spec: CampaignSpec, model: ModelFound, card: Card, legal: Legal, context_tokens: int) -> Start:
    """What the campaign begins from on the card; raises as `find_start`."""
    parts = launches_on(spec, model, card)

    def count(each: Configuration) -> int:
        return needed_bytes(parts(each, context_tokens))

    room = Room(legal, model.profile, count, usable_on(card), card.name, not spec.latency_only)
    return _told_in_use(find_start(spec.baseline, room), card)


def check_start(spec: CampaignSpec, card: Card, start: Start, made_on: MadeOn | None) -> None:
    """Raise `UsageError` where nothing fits that a campaign could begin from, or where what it begins from
    must be quantized first, on a device of this machine, and nothing here quantizes there."""
    if not start.fits:
        raise UsageError(
            f"{start.told} No campaign was begun.",
            f"{'' if card.limit_bytes is None else 'Raise --memory. '}"
            f"{'Other cards: autoinfer plan --hardware all. ' if card.is_gpu else ''}"
            "The default all the same, for parts of the count are upper guesses: --baseline default",
        )
    if spec.latency_only or start.configuration.get("quantization.method", "none") == "none":
        return
    if (why := cannot_quantize(made_on)) is not None:
        raise UsageError(
            f"The campaign would begin from {start.words}, and that is quantized first. {why}",
            "Or name what it begins from: --baseline KNOB=VALUE, or --baseline default",
        )
