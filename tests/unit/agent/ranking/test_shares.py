"""Caps and minimum shares: laws of the walk, and what the order says of them."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent.ranking.moves import moves
from agent.ranking.ranking import rank
from agent.ranking.shares import TINY, Hold, Item, allot
from agent.ranking.stopping import is_worth_it, nothing_worth_it
from agent.ranking.values import Candidate, Cause, Directive, Used
from db.states import DirectiveKind
from tests.unit.agent.ranking.queues import LEVERS, directives, queues

SHARES = (0.1, 0.25, 0.3, 0.5, 2 / 3, 0.8)


def cap(
    lever: str,
    *,
    tests: int | None = None,
    time_s: float | None = None,
    share: float | None = None,
    event_id: int = 41,
) -> Directive:
    return Directive(
        DirectiveKind.CAP, event_id, "you", "12:03", lever, tests=tests, time_s=time_s, share=share
    )


def reserve(lever: str, share: float, event_id: int = 42) -> Directive:
    return Directive(DirectiveKind.RESERVE, event_id, "you", "12:04", lever, share=share)


def one(number: int, lever: str, mean: float = -0.1, **more: object) -> Candidate:
    return replace(Candidate(number, (lever,), mean, 0.05, 0.8, 1.0, 60.0), **more)


@st.composite
def caps(draw: st.DrawFn) -> Directive:
    lever, event_id = draw(st.sampled_from(LEVERS)), draw(st.integers(100, 999))
    match draw(st.integers(0, 2)):
        case 0:
            return cap(lever, tests=draw(st.integers(1, 5)), event_id=event_id)
        case 1:
            return cap(lever, time_s=draw(st.sampled_from([1.0, 31.0, 90.0, 200.0])), event_id=event_id)
        case _:
            return cap(lever, share=draw(st.sampled_from(SHARES)), event_id=event_id)


@st.composite
def used(draw: st.DrawFn) -> Used:
    counts = {lever: draw(st.integers(0, 4)) for lever in LEVERS}
    seconds = {lever: 30.0 * count for lever, count in counts.items()}
    return Used(draw(st.integers(max(counts.values()), sum(counts.values()))), counts, seconds)


@given(queues(), directives(), st.lists(caps(), max_size=3), st.floats(0.05, 0.9), used())
def test_no_prefix_of_what_may_run_exceeds_a_cap(
    queue: list[Candidate], given_: list[Directive], limits: list[Directive], share: float, used: Used
) -> None:
    found = rank(queue, [*given_, *limits, reserve("dtype", share, 99)], used=used)
    holding = {each.lever: each for each in sorted(limits, key=lambda each: each.event_id)}
    levers = {each.hypothesis_id: each.levers for each in queue}
    tests, count, seconds = used.tests, dict(used.of_lever), dict(used.seconds_of)
    for place in (each for each in found.places if not each.paused):
        tests += 1
        for lever in levers[place.hypothesis_id]:
            count[lever] += 1
            seconds[lever] += place.cost_s
            limit = holding.get(lever)
            if limit is not None:
                assert limit.tests is None or count[lever] <= limit.tests
                assert limit.time_s is None or seconds[lever] <= limit.time_s
                assert limit.share is None or count[lever] <= limit.share * tests + TINY


@given(queues(), directives(), st.lists(caps(), max_size=3), used())
def test_whatever_is_taken_of_what_may_run_now_keeps_every_cap(
    queue: list[Candidate], given_: list[Directive], limits: list[Directive], used: Used
) -> None:
    """The loop takes what fits and pays, and not always the first: each alone must be allowed."""
    holding = {each.lever: each for each in sorted(limits, key=lambda each: each.event_id)}
    levers = {each.hypothesis_id: each.levers for each in queue}
    for place in rank(queue, [*given_, *limits], used=used).places:
        if place.may_run:
            for lever in levers[place.hypothesis_id]:
                limit = holding.get(lever)
                if limit is not None:
                    assert limit.tests is None or used.of_lever[lever] + 1 <= limit.tests
                    assert limit.time_s is None or used.seconds_of[lever] + place.cost_s <= limit.time_s
                    most = None if limit.share is None else limit.share * (used.tests + 1) + TINY
                    assert most is None or used.of_lever[lever] + 1 <= most


@given(
    st.lists(st.sampled_from(LEVERS), min_size=1, max_size=60),
    st.lists(st.sampled_from(SHARES), min_size=1, max_size=4),
)
@example([*LEVERS] * 15, [0.1, 0.1, 0.8])
def test_every_minimum_share_is_reached_to_the_test_as_long_as_its_lever_has_hypotheses(
    queue: list[str], shares: list[float]
) -> None:
    """Of levers that began at no test, while the shares add up to 1 at most."""
    kept: dict[str, float] = {}
    for lever, share in zip(LEVERS, shares, strict=False):
        if sum(kept.values()) + share <= 1:
            kept[lever] = share
    asked = [reserve(lever, share, 50 + k) for k, (lever, share) in enumerate(kept.items())]
    found = allot([Item((lever,), 60.0) for lever in queue], asked, Used())
    count = dict.fromkeys(LEVERS, 0)
    for tests, k in enumerate(found.order, start=1):
        count[queue[k]] += 1
        if any(count[lever] == queue.count(lever) for lever in kept):
            break  # with nothing left of one of them the others' places are not bound
        for lever, share in kept.items():
            assert count[lever] >= math.floor(share * tests + TINY)


@given(st.lists(st.sampled_from(LEVERS), max_size=40), st.sampled_from(SHARES), used())
def test_a_lever_behind_its_minimum_share_catches_up_before_anything_else_is_tested(
    queue: list[str], share: float, used: Used
) -> None:
    found = allot([Item((lever,), 60.0) for lever in queue], [reserve("dtype", share)], used)
    tests, count, left = used.tests, used.of_lever["dtype"], queue.count("dtype")
    for k in found.order:
        tests += 1
        if queue[k] == "dtype":
            count, left = count + 1, left - 1
        else:
            assert left == 0 or count >= share * tests - TINY


@given(queues(), directives(), st.lists(caps(), max_size=3), used(), st.randoms(use_true_random=False))
def test_the_order_is_the_same_whatever_order_candidates_and_directives_come_in(
    queue: list[Candidate], given_: list[Directive], limits: list[Directive], used: Used, rng: random.Random
) -> None:
    by_event = {each.event_id: each for each in [*given_, *limits, reserve("threads", 0.3, 98)]}
    asked = list(by_event.values())
    shuffled, turned = list(queue), list(asked)
    rng.shuffle(shuffled)
    rng.shuffle(turned)
    assert rank(queue, asked, used=used) == rank(shuffled, turned, used=used)


@given(queues(), directives(), st.lists(caps(), max_size=3), used())
def test_everything_has_one_place_and_what_is_held_back_comes_after_what_may_run(
    queue: list[Candidate], given_: list[Directive], limits: list[Directive], used: Used
) -> None:
    found = rank(queue, [*given_, *limits, reserve("pruning", 0.5, 98)], used=used)
    assert sorted(found.order) == sorted(each.hypothesis_id for each in queue)
    paused = [place.paused for place in found.places]
    assert paused == sorted(paused)
    for place in found.places:
        assert (place.capped_by is None) == ("held back by the cap" not in place.reason)
        assert (place.reserved_by is None) == ("stands here for the" not in place.reason)


@given(queues(), directives())
def test_a_cap_and_a_share_that_never_bind_change_no_place(
    queue: list[Candidate], given_: list[Directive]
) -> None:
    loose = [cap("threads", tests=1000), reserve("none of these", 0.5)]
    assert rank(queue, [*given_, *loose]).order == rank(queue, given_).order


def test_a_cap_of_tests_holds_back_what_comes_after_them_and_says_who_gave_it() -> None:
    queue = [one(1, "pruning", -0.5), one(2, "pruning", -0.4), one(3, "threads")]
    found = rank(queue, [cap("pruning", tests=3)], used=Used(5, {"pruning": 2}, {"pruning": 120.0}))
    assert found.order == (1, 3, 2)
    assert found.places[2].paused
    assert found.places[2].reason.endswith(
        "; held back by the cap of 3 tests on pruning by you at 12:03 (event 41), with 2 of 5 tests so far"
    )


def test_a_cap_of_time_lets_pass_what_still_fits_into_it() -> None:
    queue = [one(1, "pruning", -0.5, cost_s=200.0), one(2, "pruning", -0.1, cost_s=50.0)]
    found = rank(queue, [cap("pruning", time_s=300.0)], used=Used(2, {"pruning": 2}, {"pruning": 150.0}))
    assert [(place.hypothesis_id, place.paused) for place in found.places] == [(2, False), (1, True)]
    assert "the cap of 5 min on pruning by you at 12:03 (event 41), 2 min 30 s of which are used" in (
        found.places[1].reason
    )


def test_a_cap_of_a_share_lets_others_come_first_and_then_the_lever() -> None:
    queue = [one(1, "pruning", -0.9), *(one(number, "threads") for number in (2, 3, 4))]
    found = rank(queue, [cap("pruning", share=0.3)])
    assert found.order == (2, 3, 4, 1)
    assert not found.places[3].paused
    assert not found.places[3].may_run
    assert "others come first by the cap of 30 % of all tests on pruning" in found.places[3].reason


def test_what_only_a_capped_lever_is_left_of_is_held_back_for_good() -> None:
    queue = [one(1, "pruning", -0.9), one(2, "pruning", -0.8)]
    found = rank(queue, [cap("pruning", share=0.5)])
    assert [place.paused for place in found.places] == [True, True]
    assert nothing_worth_it(found) == "Everything left in the queue is held back by a cap (2 in all)."


def test_a_cap_holds_over_a_pin_a_move_and_the_question_of_the_night() -> None:
    pin = Directive(DirectiveKind.PIN, 5, "you", "12:00", hypothesis_id=1)
    to = Directive(DirectiveKind.PRIORITY, 6, "you", "12:00", hypothesis_id=2)
    queue = [one(1, "pruning"), one(2, "pruning"), one(3, "pruning", settles="H-003"), one(4, "threads")]
    spent = Used(1, {"pruning": 1}, {"pruning": 60.0})
    found = rank(queue, [pin, to, cap("pruning", tests=1)], used=spent)
    assert found.next_up is not None
    assert found.next_up.hypothesis_id == 4
    assert [place.paused for place in found.places] == [False, True, True, True]


def test_the_confirmation_of_the_best_is_held_back_by_no_cap() -> None:
    last = one(1, "pruning", confirms=True)
    found = rank([last], [cap("pruning", tests=1)], used=Used(1, {"pruning": 1}, {"pruning": 60.0}))
    assert found.places[0].may_run


def test_a_minimum_share_brings_its_lever_forward_with_who_gave_it() -> None:
    queue = [*(one(number, "threads", -0.5) for number in (1, 2, 3, 4)), one(5, "quantization", -0.01)]
    found = rank(queue, [reserve("quantization", 0.25)], used=Used(2, {"threads": 2}, {}))
    assert found.order[0] == 5
    assert found.places[0].owed
    assert found.places[0].reason.endswith(
        "; stands here for the 25 % of all tests that are kept for quantization by you at 12:04 (event 42), "
        "with 0 of 2 tests so far"
    )


def test_a_minimum_share_overtakes_no_pin_no_question_of_the_file_and_no_move() -> None:
    pin = Directive(DirectiveKind.PIN, 5, "you", "12:00", hypothesis_id=1)
    third = Directive(DirectiveKind.PRIORITY, 6, "you", "12:00", hypothesis_id=3, ahead=frozenset({1, 2}))
    queue = [one(1, "threads"), one(2, "threads", asked=True), one(3, "threads"), one(4, "dtype", 0.1)]
    assert rank(queue, [pin, third, reserve("dtype", 0.9)]).order == (1, 2, 3, 4)


def test_what_is_owed_to_a_minimum_share_is_worth_testing_and_what_is_not_owed_is_not() -> None:
    poor = [one(number, "dtype", 0.3) for number in (1, 2, 3)]
    owed = rank(poor, [reserve("dtype", 0.3)], used=Used(3, {"threads": 3}, {}))
    assert is_worth_it(owed.places[0])
    met = rank(poor, [reserve("dtype", 0.3)], used=Used(3, {"threads": 1, "dtype": 2}, {}))
    assert not any(is_worth_it(place) for place in met.places)


def test_the_question_of_the_night_and_what_separates_its_causes_come_before_pins() -> None:
    asked = Directive(DirectiveKind.QUESTION, 9, "you", "23:10", hypothesis_id=7)
    queue = [
        one(1, "threads", -0.9, pinned=True),
        one(7, "dtype", 0.2, settles="H-007"),
        one(8, "dtype", 0.2, settles="H-007", separates="E-0004"),
    ]
    found = rank(queue, [asked])
    assert found.order == (7, 8, 1)
    assert found.places[0].reason.startswith("first: the question of the night; ")
    assert found.places[1].reason.startswith(
        "second: settles H-007, the question of the night, and separates the causes of E-0004; "
    )
    assert found.places[0].reason.endswith("; put before all else by you at 23:10 (event 9)")
    assert all(is_worth_it(place) for place in found.places[:2])


@pytest.mark.parametrize(
    ("directive", "words"),
    [
        (cap("pruning", tests=1), "H-001: held back by a cap, after"),
        (reserve("threads", 1.0), "H-003: brought forward by the minimum share of its lever, after"),
    ],
)
def test_a_move_names_the_directive_that_made_it(directive: Directive, words: str) -> None:
    queue = [one(1, "pruning", -0.4), one(2, "pruning", -0.5), one(3, "threads", -0.1)]
    found = moves(rank(queue), rank(queue, [directive]), Cause(41, "your directive"))
    assert any(f"H-{each.hypothesis_id:03}: {each.reason}".startswith(words) for each in found), found


def test_an_item_that_was_moved_keeps_its_place_and_the_share_takes_the_ones_around_it() -> None:
    items = [
        Item(("threads",), 60.0),
        Item(("threads",), 60.0, Hold.MOVED),
        Item(("dtype",), 60.0),
        Item(("threads",), 60.0),
    ]
    assert allot(items, [reserve("dtype", 0.5)], Used()).order == (2, 1, 0, 3)
