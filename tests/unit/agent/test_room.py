"""How many launches of a test may be up at once goes by what its arms need; what never fits is not legal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.campaign.decision.expected_cost import most_seconds
from agent.campaign.known.facts import Facts
from agent.campaign.known.room import at_once_of, with_room
from agent.campaign.known.stored_ground import StoredGround
from agent.campaign.known.within_memory import legal_of
from agent.surrogate.cost import CostBelief
from configs.campaign import load_campaign
from experiments.shapes.folder import write_shape
from tests.unit.agent.gpu_desk import BASELINE, SHAPE, SPACE, gpu_desk

GB = 10**9
ONE_AT_ONCE = {"concurrency": 1, "prompt_tokens": 512, "new_tokens": 128}
MANY = SPACE.with_change(BASELINE, {"serving.max_model_len": 32768, "serving.max_sequences": 64})
"""Has a cache of a quarter of the card, 42 GB in all where the default takes 29."""
FP8 = SPACE.with_change(BASELINE, {"serving.weight_dtype": "fp8"})


@pytest.fixture(scope="module")
def shape(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_shape(SHAPE, BASELINE, tmp_path_factory.mktemp("shape"))


def facts(shape: Path, **known: Any) -> Facts:
    given = {"checkpoint": shape, "gpu_memory_bytes": 80 * GB, "at_once": 2, **known}
    return gpu_desk(5.0, 60.0, workload=ONE_AT_ONCE, **given).facts


def test_a_candidate_that_a_card_holds_once_is_tested_in_turn(shape: Path) -> None:
    whole = facts(shape)
    found = with_room(whole, (BASELINE, MANY))
    assert (found.at_once, found.in_turn) == (1, True)
    assert (whole.noise_key, found.noise_key) == ("cuda, over HTTP", "cuda, in turn, over HTTP")
    assert with_room(whole, (MANY, BASELINE)).in_turn, "whichever arm it is"
    assert with_room(whole, (BASELINE, FP8)) is whole


def test_fewer_are_up_where_fewer_fit_and_never_more_than_the_campaign_has(shape: Path) -> None:
    large = facts(shape, gpu_memory_bytes=151 * GB, at_once=4)
    assert with_room(large, (BASELINE, MANY)).at_once == 2
    assert at_once_of(replace(large, at_once=3))(FP8) == 3
    assert at_once_of(replace(large, at_once=None))(BASELINE) == 4


def test_a_limit_of_the_campaign_counts_as_its_card(shape: Path) -> None:
    given = facts(shape, gpu_memory_bytes=151 * GB)
    assert not with_room(given, (BASELINE, BASELINE)).in_turn
    limited = replace(given, spec=given.spec.model_copy(update={"memory": 40 * GB}))
    assert with_room(limited, (BASELINE, BASELINE)).in_turn


@pytest.mark.parametrize("known", [{"gpu_memory_bytes": None}, {"at_once": 1}])
def test_nothing_is_counted_where_memory_is_not_known_or_launches_are_in_turn(
    shape: Path, known: dict[str, Any]
) -> None:
    whole = facts(Path("is not read"), **known)
    assert with_room(whole, (BASELINE, MANY)) is whole


def test_side_by_side_where_that_is_asked_for(shape: Path) -> None:
    whole = facts(shape, at_once=None)
    asked = replace(whole, spec=whole.spec.model_copy(update={"launches": "side_by_side"}))
    assert with_room(asked, (BASELINE, MANY)) is asked
    assert with_room(whole, (BASELINE, MANY)).in_turn


def belief_of(shape: Path, **known: Any) -> tuple[CostBelief, float]:
    desk = gpu_desk(
        5.0, 60.0, workload=ONE_AT_ONCE, **{"checkpoint": shape, "gpu_memory_bytes": 80 * GB, **known}
    )
    desk = replace(desk, baseline=replace(desk.baseline, load_s=100.0))
    most = most_seconds(desk.facts, desk.baseline, desk.beliefs.cost, [MANY, FP8])
    assert most[0] is not None
    assert most[1] is not None
    return desk.beliefs.cost, most[0] - most[1]


def test_a_test_in_turn_is_expected_to_wait_for_two_loads_a_pair(shape: Path) -> None:
    cost, more_s = belief_of(shape, at_once=2)
    many, less = cost.expected_s([MANY, FP8], [1.0, 1.0])
    assert many - less == pytest.approx(3 * 100.0)
    assert more_s > 3 * 100.0, "all of its plan has more than three pairs"
    cost, more_s = belief_of(shape, at_once=1)
    many, less = cost.expected_s([MANY, FP8], [1.0, 1.0])
    assert (many, more_s) == (less, 0.0), "where all are in turn it costs no more than others"


def ground(shape: Path, memory_bytes: int | None) -> StoredGround:
    return StoredGround(load_campaign("shape"), shape, 8, "9.0", memory_bytes, None, None, None)


def test_what_a_card_never_holds_is_not_legal_though_the_default_fits(shape: Path) -> None:
    assert legal_of(ground(shape, 22 * GB)).refused(BASELINE) is None
    told = legal_of(ground(shape, 22 * GB)).refused(MANY)
    assert str(told).startswith("It never fits: it needs ")
    assert legal_of(ground(shape, 151 * GB)).refused(MANY) is None
    assert legal_of(ground(shape, None)).refused(MANY) is None
