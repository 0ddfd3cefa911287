"""How many launches may be up at once: by the memory that the plan counts, or as the campaign asks."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from agent.campaign.beginning.create import create_campaign
from agent.campaign.beginning.survey import survey
from agent.campaign.known.reading_facts import read_facts
from agent.campaign.queue.dispatch import dispatch_baseline, noise_launches
from agent.ground.drafter import space_of
from agent.ground.legal import legal_here
from agent.plan.at_once import launches_at_once
from agent.plan.card import Card, card_asked
from agent.plan.model import find_model
from agent.plan.plan import Plan, make_plan
from configs.campaign import CampaignSpec, load_campaign
from configs.errors import UsageError
from configs.models import load_model_profile
from configs.weight_formats import BFLOAT16
from db.models import Job
from db.session import Database
from experiments.engines.device_memory import LARGE_CARD_BYTES, Held, reserved_cache_bytes
from experiments.engines.hybrid_cache import CacheLayout, cache_layout
from experiments.engines.port import Infeasible
from experiments.engines.reference.engine import ReferenceEngine
from experiments.measurement.noise import noise_key
from tests.unit.agent.test_questions import database

__all__ = ["database"]  # the fixture

CONTEXT = 1024


def on_vllm(**more: object) -> CampaignSpec:
    return load_campaign(
        "default", {"engine": "vllm", "space": "vllm", "target": "cuda:0", "baseline.sweep": [], **more}
    )


def at_once(size: str, card: str, **more: object) -> int | None:
    spec = on_vllm(**more)
    default = space_of(spec).configuration({})
    return launches_at_once(spec, find_model(f"qwen3.5-{size}"), card_asked(card), default, CONTEXT)


def plan(size: str, card: str, **more: object) -> Plan:
    return make_plan(on_vllm(**more), find_model(f"qwen3.5-{size}"), card_asked(card))


@pytest.mark.parametrize("card", ["16GB", "rtx-4090", "l4"])
def test_a_card_that_holds_the_4b_once_takes_launches_in_turn(card: str) -> None:
    assert at_once("4b", card) == 1
    told = plan("4b", card)
    assert told.memory.rooms[0].fits
    assert "Launches run in turn, because two of" in str(told.memory.in_turn_told)


def test_an_h200_holds_several_launches_of_the_9b() -> None:
    assert at_once("9b", "h200") == 4
    assert plan("9b", "h200").memory.in_turn_told is None


def test_the_campaign_may_ask_for_either() -> None:
    assert at_once("9b", "h200", launches="in_turn") == 1
    assert at_once("4b", "16GB", launches="side_by_side") is None
    assert "as the campaign's `launches` asks" in str(
        plan("9b", "h200", launches="in_turn").memory.in_turn_told
    )


def test_in_turn_the_first_verdict_is_expected_later() -> None:
    slow, quick = plan("4b", "h200", launches="in_turn"), plan("4b", "h200")
    assert slow.first_verdict.most_s > quick.first_verdict.most_s + 5 * 80.0


def test_on_a_processor_launches_are_limited_only_where_two_do_not_fit() -> None:
    spec = load_campaign("default")
    model, default = find_model("reference"), space_of(spec).configuration({})
    roomy = Card("a processor", 16 * 10**9, is_gpu=False, here=True, free_bytes=8 * 10**9)
    tight = Card("a processor", 16 * 10**9, is_gpu=False, here=True, free_bytes=8 * 10**8)
    assert launches_at_once(spec, model, roomy, default, CONTEXT) is None
    assert launches_at_once(spec, model, tight, default, CONTEXT) == 1


@pytest.mark.parametrize(
    ("asked", "limit", "expected"), [(3, None, 3), (3, 1, 3), (3, 2, 2), (3, 8, 3), (2, 5, 2)]
)
def test_noise_launches_are_as_many_as_fit_side_by_side_and_any_number_in_turn(
    asked: int, limit: int | None, expected: int
) -> None:
    assert noise_launches(asked, limit) == expected


def test_a_campaign_in_turn_is_stored_dispatched_and_told_as_one(database: Database) -> None:
    spec = load_campaign("default", {"launches": "in_turn"})
    with database.write() as session:
        campaign_id = create_campaign(session, spec, survey(spec))
        facts = read_facts(session, campaign_id)
        dispatch_baseline(session, facts, legal_here(spec, facts.checkpoint, facts.cores).space)
        job = session.scalars(select(Job.spec)).one()
    assert job["at_once"] == 1
    assert facts.in_turn
    assert facts.noise_key == noise_key(facts.target_key, in_turn=True) != facts.target_key


def test_a_campaign_whose_engine_has_room_for_one_launch_alone_runs_in_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the engine itself counts goes first: the plan's figure may be too small."""
    real = ReferenceEngine._check_memory

    def no_room_for_two(engine: ReferenceEngine, *asked: object) -> None:
        if engine._launches_at_once > 1:
            raise Infeasible("out_of_memory", "two do not fit")
        real(engine, *asked)  # type: ignore[arg-type]

    monkeypatch.setattr(ReferenceEngine, "_check_memory", no_room_for_two)
    assert survey(load_campaign("default")).at_once == 1
    with pytest.raises(UsageError, match="two do not fit"):
        survey(load_campaign("default", {"launches": "side_by_side"}))


def one(size: str = "4b") -> Held:
    return Held(load_model_profile(f"qwen3.5-{size}"), BFLOAT16, 4096)


def layout(size: str = "4b") -> CacheLayout:
    return cache_layout(load_model_profile(f"qwen3.5-{size}"), {})


def reserved(sequences: int, memory_bytes: int | None) -> int:
    return reserved_cache_bytes(one(), sequences, layout().least_bytes(sequences, 4096), memory_bytes)


def test_a_cache_is_spared_on_a_small_card_and_nowhere_else() -> None:
    whole = reserved(16, None)
    assert reserved(16, LARGE_CARD_BYTES) == whole
    assert reserved(16, 24 * 10**9) == 3 * 10**9 < whole
    assert reserved(1, 24 * 10**9) == reserved(1, None)


def test_the_spared_cache_holds_the_states_of_all_and_tells_how_long_requests_may_be() -> None:
    spared = reserved(16, 16 * 10**9)
    assert layout().sequences_that_fit(641, spared) >= 16
    assert layout().sequences_that_fit(4096, spared) < 16
    assert layout().sequences_that_fit(4096, reserved(16, None)) >= 16


def test_no_more_requests_are_promised_than_the_engine_has_blocks_for() -> None:
    """0.8B in the 1.0 GB that a card of 8 GB gives it: by vLLM 0.32's count 149 blocks, of which one is kept
    free and a sequence of 4,096 tokens takes 11; by bytes alone they would be 14 sequences."""
    assert layout("0.8b").sequences_that_fit(4096, 10**9) == 13
