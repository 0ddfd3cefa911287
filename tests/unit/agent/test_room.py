"""How many launches of a test may be up at once goes by what its arms need; what never fits is not legal."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agent.campaign.decision.desk import Desk
from agent.campaign.decision.expected_cost import cost_priors, most_seconds
from agent.campaign.known.facts import Facts
from agent.campaign.known.room import room_of, with_room
from agent.campaign.known.stored_ground import StoredGround
from agent.campaign.known.within_memory import legal_of
from agent.plan.at_once import parts_on
from agent.plan.card import Card
from agent.plan.memory import USABLE_SHARE
from agent.plan.model import find_model
from agent.surrogate.timed_kernels import TimedKernels
from configs.campaign import load_campaign
from experiments.engines.launch_memory import needed_bytes
from experiments.shapes.folder import write_shape
from experiments.space.configuration import Configuration
from tests.unit.agent.gpu_desk import BASELINE, SHAPE, SPACE, gpu_desk

GB = 10**9
ONE_AT_ONCE = {"concurrency": 1, "prompt_tokens": 512, "new_tokens": 128}
MANY = SPACE.with_change(BASELINE, {"serving.max_model_len": 8192, "serving.max_sequences": 64})
"""Has a large cache: 64 GB in all on a card of 140, where the default takes 29 and 4 bits 18."""
FOUR_BITS = SPACE.with_change(BASELINE, {"quantization.method": "awq"})
MANY_IN_FOUR = SPACE.with_change(FOUR_BITS, {"serving.max_model_len": 8192, "serving.max_sequences": 64})
LOAD_S = 100.0


@pytest.fixture(scope="module")
def shape(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_shape(SHAPE, BASELINE, tmp_path_factory.mktemp("shape"))


def facts(shape: Path, memory_gb: float | None = 100, at_once: int | None = 2, **known: Any) -> Facts:
    memory = None if memory_gb is None else round(memory_gb * GB)
    given = {"checkpoint": shape, "gpu_memory_bytes": memory, "at_once": at_once, **known}
    return gpu_desk(5.0, 60.0, workload=ONE_AT_ONCE, **given).facts


def least_gb(shape: Path, *arms: Configuration) -> int:
    """The least card, in GB, on which arms are up together."""
    return next(gb for gb in range(70, 400) if not with_room(facts(shape, gb), *arms).in_turn)


def taken_gb(*arms: Configuration, guesses: bool = True) -> float:
    """What the plan counts of each on a card so large that its cache is not spared, added up."""
    model, card = find_model("qwen3.5-9b"), Card("", 150 * GB)
    context = ONE_AT_ONCE["prompt_tokens"] + ONE_AT_ONCE["new_tokens"]
    parts = [part for each in arms for part in parts_on(load_campaign("shape"), model, card, each, context)]
    return needed_bytes(part for part in parts if guesses or not part.guessed) / GB


def test_arms_that_a_card_does_not_hold_together_are_tested_in_turn(shape: Path) -> None:
    whole = facts(shape)
    for arms in ((BASELINE, MANY), (MANY, BASELINE)):
        found = with_room(whole, *arms)
        assert (found.at_once, found.in_turn) == (1, True), "whichever needs more"
        assert (whole.noise_key, found.noise_key) == ("cuda, over HTTP", "cuda, in turn, over HTTP")
    assert with_room(whole, BASELINE, FOUR_BITS) is whole


@pytest.mark.parametrize("one", [MANY, BASELINE], ids=["together", "twice"])
def test_it_is_both_arms_together_that_count_and_what_is_certain_of_one_twice(
    shape: Path, one: Configuration
) -> None:
    """What the plan calls a test at once, and what the engine's own check asks for."""
    both = taken_gb(one, MANY) / USABLE_SHARE
    twice = taken_gb(MANY, MANY, guesses=False)
    assert (twice > both) == (one == BASELINE)
    assert least_gb(shape, one, MANY) == least_gb(shape, MANY, one) == math.ceil(max(both, twice))


def test_fewer_pairs_are_up_where_fewer_fit_and_never_more_than_the_campaign_has(shape: Path) -> None:
    large = facts(shape, 151, at_once=4)
    assert with_room(large, BASELINE, MANY).at_once == 2
    for most in (2, 3, 4):
        known = replace(large, at_once=most)
        assert with_room(known, BASELINE, BASELINE) is known
    three = facts(shape, 100, at_once=3)
    assert with_room(three, BASELINE, BASELINE) is three, "a third has no use"
    assert room_of(replace(large, at_once=8))(BASELINE, BASELINE) == 4
    assert room_of(replace(large, at_once=None))(BASELINE, BASELINE) == 4


def test_a_limit_of_the_campaign_counts_as_its_card(shape: Path) -> None:
    given = facts(shape, 151)
    assert not with_room(given, BASELINE, BASELINE).in_turn
    limited = replace(given, spec=given.spec.model_copy(update={"memory": 40 * GB}))
    assert with_room(limited, BASELINE, BASELINE).in_turn


def test_the_workload_s_own_cache_counts(shape: Path) -> None:
    """256 requests of 4,000 tokens, where the space has room for 16 sequences."""
    many = {"concurrency": 256, "prompt_tokens": 3840, "new_tokens": 128}
    known = gpu_desk(5.0, 60.0, workload=many, checkpoint=shape, gpu_memory_bytes=100 * GB, at_once=2).facts
    assert with_room(known, BASELINE, BASELINE).in_turn
    assert not with_room(facts(shape), BASELINE, BASELINE).in_turn


@pytest.mark.parametrize("known", [{"memory_gb": None}, {"at_once": 1}])
def test_nothing_is_counted_where_memory_is_not_known_or_launches_are_in_turn(known: dict[str, Any]) -> None:
    whole = facts(Path("is not read"), **known)
    assert with_room(whole, BASELINE, MANY) is whole


def test_side_by_side_where_that_is_asked_for(shape: Path) -> None:
    whole = facts(shape, at_once=None)
    asked = replace(whole, spec=whole.spec.model_copy(update={"launches": "side_by_side"}))
    assert with_room(asked, BASELINE, MANY) is asked
    assert with_room(whole, BASELINE, MANY).in_turn


def loading(shape: Path, **known: Any) -> Desk:
    """A desk whose loads take 100 s."""
    given = {"checkpoint": shape, "gpu_memory_bytes": 100 * GB, "at_once": 2, **known}
    desk = gpu_desk(5.0, 60.0, workload=ONE_AT_ONCE, **given)
    return replace(desk, baseline=replace(desk.baseline, load_s=LOAD_S))


def test_a_test_in_turn_is_expected_to_wait_for_two_loads_a_pair(shape: Path) -> None:
    cost = loading(shape).beliefs.cost
    many, less = cost.expected_s([MANY_IN_FOUR, FOUR_BITS], [1.0, 1.0])
    assert many - less == pytest.approx(3 * LOAD_S)
    in_turn = loading(shape, at_once=1).beliefs.cost
    many, less = in_turn.expected_s([MANY_IN_FOUR, FOUR_BITS], [1.0, 1.0])
    assert many == less, "where all are in turn it costs no more than others"
    assert in_turn.priors.apart_s(MANY) == 0.0, "which the campaign's own prior has"


def test_it_is_the_best_so_far_beside_which_a_candidate_is_counted(shape: Path) -> None:
    assert loading(shape).beliefs.cost.priors.apart_s(MANY_IN_FOUR) == 3 * LOAD_S
    from_four = loading(shape, baseline=FOUR_BITS)
    assert room_of(from_four.facts)(FOUR_BITS, FOUR_BITS) == 2


def priors(up: int | None, at_once: int | None, compiles_s: float = 0.0) -> Callable[[Configuration], float]:
    timed = cast(TimedKernels, SimpleNamespace(compiles_s=lambda each: compiles_s))
    return cost_priors(
        load_campaign("shape").plan,
        loading(Path("is not read"), gpu_memory_bytes=None).baseline,
        BASELINE.digest,
        SHAPE,
        {},
        at_once=at_once,
        made_up=True,
        timed=timed,
        room=lambda candidate: up,
    ).apart_s


def test_pairs_that_no_longer_load_together_are_waited_for_each() -> None:
    assert priors(up=4, at_once=4, compiles_s=7.0)(MANY) == 0.0
    assert priors(up=2, at_once=4)(MANY) == LOAD_S, "three waits for two"
    assert priors(up=2, at_once=4, compiles_s=7.0)(MANY) == LOAD_S + 7.0, "and for what its kernels compile"
    assert priors(up=1, at_once=4, compiles_s=7.0)(MANY) == 4 * LOAD_S + 7.0, "six for two, three its own"
    assert priors(up=1, at_once=2, compiles_s=7.0)(MANY) == 3 * LOAD_S, "six for three, three its own"


def test_the_whole_plan_of_a_test_in_turn_takes_longer_by_either_arm(shape: Path) -> None:
    desk = loading(shape)
    tests = [(BASELINE, FOUR_BITS), (BASELINE, MANY_IN_FOUR), (MANY, FOUR_BITS)]
    plain, many, beside = most_seconds(desk.facts, desk.baseline, desk.beliefs.cost, tests)
    assert plain is not None
    assert many is not None
    assert beside is not None
    assert many > plain + 3 * LOAD_S
    assert beside > plain + 3 * LOAD_S
    large = loading(shape, gpu_memory_bytes=151 * GB, at_once=4)
    two, one = most_seconds(large.facts, large.baseline, large.beliefs.cost, tests[1::-1])
    assert two is not None
    assert one is not None
    assert two >= one + LOAD_S, "two pairs of the validation load one after the other"


def ground(shape: Path, memory_gb: float | None, **asked: Any) -> StoredGround:
    memory = None if memory_gb is None else round(memory_gb * GB)
    spec = load_campaign("shape").model_copy(update=asked)
    return StoredGround(spec, shape, 8, "9.0" if memory else None, memory, None, None, None)


def test_what_a_card_never_holds_is_not_legal_though_the_default_fits(shape: Path) -> None:
    longest = SPACE.with_change(BASELINE, {"serving.max_model_len": 32768, "serving.max_sequences": 64})
    told = legal_of(ground(shape, 22)).refused(longest)
    assert str(told).startswith("It never fits: it needs ")
    assert legal_of(ground(shape, 22)).refused(BASELINE) is None
    assert legal_of(ground(shape, 200)).refused(longest) is None
    assert legal_of(ground(shape, None)).refused(longest) is None


def test_a_limit_is_kept_to_on_a_processor_too(shape: Path) -> None:
    limited = legal_of(ground(shape, None, memory=20 * GB))
    assert str(limited.refused(BASELINE)).startswith("By count it does not fit")
