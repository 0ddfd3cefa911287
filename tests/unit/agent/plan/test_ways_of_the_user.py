"""Where a plan does not fit, what its user may ask for is told: fewer requests at once, more memory."""

from __future__ import annotations

import re

from agent.plan.card import card_asked
from agent.plan.model import find_model
from agent.plan.plan import Plan, make_plan
from configs.campaign import load_campaign
from configs.quantities import parse_bytes


def plan(model: str, card: str, at_once: int = 1, memory: str | None = None) -> Plan:
    given: dict[str, object] = {"plan.workload.concurrency": at_once}
    if memory is not None:
        given["memory"] = parse_bytes(memory)
    spec = load_campaign("shape", {"model": model, "weights": "checkpoint", **given})
    return make_plan(spec, find_model(model), card_asked(card))


def test_where_no_campaign_begins_the_most_requests_at_once_with_which_one_does_are_told() -> None:
    found = plan("qwen3.5-4b", "8GB", 64)
    assert not found.start.fits
    assert found.notes == (
        "With 4 requests at once a campaign can begin here (--concurrency 4; in a campaign's file "
        "plan.workload.concurrency).",
    )
    assert [plan("qwen3.5-4b", "8GB", at_once).start.fits for at_once in (4, 16)] == [True, False]


def test_nothing_is_told_of_fewer_where_no_number_would_do_or_a_campaign_begins_anyhow() -> None:
    assert not plan("qwen3.5-9b", "8GB", 1).start.fits
    for nothing in (
        plan("qwen3.5-9b", "8GB", 64),
        plan("qwen3.5-9b", "8GB", 1),
        plan("qwen3.5-4b", "24GB", 64),
    ):
        assert not any("at once a campaign can begin" in note for note in nothing.notes)


def test_where_a_limit_is_what_leaves_no_room_more_of_the_card_is_told_and_no_other_card() -> None:
    found = plan("qwen3.5-9b", "h200", memory="20GB")
    one, both = found.memory.rooms
    assert (one.fits, both.fits) == (True, False)
    told = re.search(r"would fit: --memory ([\d.]+GB)\.", found.memory.sentences[1])
    assert told is not None, found.memory.sentences
    enough = parse_bytes(told[1])
    assert both.needed_bytes <= enough < both.needed_bytes + 200_000_000
    assert plan("qwen3.5-9b", "h200", memory=told[1]).memory.sentences[0].startswith("One launch fits")


def test_where_the_whole_card_is_too_small_another_is_told_whatever_the_limit() -> None:
    found = plan("qwen3.5-27b", "24GB", memory="10GB")
    assert "a card such as" in found.memory.sentences[0]
    assert "--memory" not in found.memory.sentences[0]
