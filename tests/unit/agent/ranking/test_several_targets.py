"""One order for tests of several targets: price, waiting and what is built there, in one currency."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.ranking.across import WAITING_COUNTS, price_s
from agent.ranking.moves import moves
from agent.ranking.ranking import rank
from agent.ranking.values import Candidate, Cause, Directive, There, Used
from db.states import DirectiveKind
from tests.unit.agent.ranking.queues import LEVERS, directives, queues

HOUR_USD = 4.0


def here(number: int, cost_s: float = 60.0, mean: float = -0.2) -> Candidate:
    return Candidate(number, ("compile",), mean, 0.02, 1.0, 1.0, cost_s)


def there(
    number: int,
    target: str = "modal:L4",
    *,
    cost_s: float = 60.0,
    usd: float | None = 0.02,
    wait_s: float = 0.0,
    build_s: float = 0.0,
    held: str | None = None,
) -> Candidate:
    at = There(target, wait_s=wait_s, build_s=build_s, held=held)
    return replace(here(number, cost_s + build_s), usd=usd, there=at)


@given(queues(), directives(), st.floats(0.0001, 0.1))
def test_with_one_target_the_order_is_what_it_was_without_prices(
    queue: list[Candidate], given: list[Directive], usd_per_s: float
) -> None:
    """Also where all of it is for another target, with whatever wait that has."""
    priced = [replace(each, usd=usd_per_s * each.cost_s) for each in queue]
    elsewhere = [replace(each, there=There("modal:L4", wait_s=500.0)) for each in priced]
    plain = rank(queue, given)
    for found in (rank(priced, given, usd_per_hour=HOUR_USD), rank(elsewhere, given, usd_per_hour=HOUR_USD)):
        assert found.order == plain.order
        assert [place.score for place in found.places] == [place.score for place in plain.places]
        assert [place.weighed_s for place in found.places] == [place.cost_s for place in plain.places]


@given(queues(), queues(), st.floats(0.5, 50.0))
def test_what_is_for_another_target_leaves_the_order_here_as_it_was(
    queue: list[Candidate], others: list[Candidate], usd_per_hour: float
) -> None:
    elsewhere = [
        replace(each, hypothesis_id=each.hypothesis_id + 100, usd=0.3, there=There("modal:L4", wait_s=120.0))
        for each in others
    ]
    found = rank([*queue, *elsewhere], usd_per_hour=usd_per_hour)
    assert [each for each in found.order if each <= 100] == list(rank(queue).order)


@given(queues(), queues(), st.sampled_from([0.1, 0.3, 0.5]), st.integers(0, 3))
def test_caps_and_minimum_shares_order_what_is_tested_here_and_hold_back_nothing_elsewhere(
    queue: list[Candidate], others: list[Candidate], share: float, tests: int
) -> None:
    limits = [
        Directive(DirectiveKind.CAP, 41, "you", "12:03", LEVERS[0], tests=tests + 1),
        Directive(DirectiveKind.RESERVE, 42, "you", "12:04", LEVERS[1], share=share),
    ]
    used = Used(2 * tests, {LEVERS[0]: tests, LEVERS[1]: tests})
    elsewhere = [
        replace(each, hypothesis_id=each.hypothesis_id + 100, usd=0.3, there=There("modal:L4"))
        for each in others
    ]
    found, alone = rank([*queue, *elsewhere], limits, used=used), rank(queue, limits, used=used)
    assert [each for each in found.order if each <= 100] == list(alone.order)
    held = {place.hypothesis_id for place in alone.places if place.paused}
    assert {place.hypothesis_id for place in found.places if place.paused} == held


@given(queues(), st.floats(0.5, 50.0))
def test_the_score_is_what_it_is_worth_over_all_that_it_costs(
    queue: list[Candidate], usd_per_hour: float
) -> None:
    elsewhere = [
        replace(each, hypothesis_id=each.hypothesis_id + 100, usd=0.3, there=There("modal:L4", wait_s=120.0))
        for each in queue
    ]
    for place in rank([*queue, *elsewhere], usd_per_hour=usd_per_hour).places:
        wait_s = 120.0 if place.target else 0.0
        weighed = place.cost_s + price_s(place.usd or 0.0, usd_per_hour) + WAITING_COUNTS * wait_s
        assert place.weighed_s == pytest.approx(weighed)
        assert place.score == pytest.approx(place.worth / weighed * place.directive_factor)


def test_a_dearer_target_comes_later_and_says_that_its_price_is_why() -> None:
    found = rank([there(1, "modal:B200", usd=0.10), there(2, "modal:L4", usd=0.02), here(3)])
    assert found.order == (3, 2, 1)
    assert "before H-002 on modal:L4 because its price is $0.00, against $0.0200" in found.places[0].reason
    assert "before H-001 on modal:B200 because its price is $0.0200, against $0.100" in found.places[1].reason


def test_what_has_its_artifacts_there_comes_earlier_and_says_so() -> None:
    found = rank([there(1, "modal:L4", build_s=300.0), there(2, "runpod:L4"), here(3, 20.0)])
    assert found.order == (3, 2, 1)
    first, _, last = (place.reason for place in found.places[::-1])
    assert "5 min of it to build what only exists here" in first
    assert "behind H-002 on runpod:L4 because what must be built for it takes 5 min, against 0 s" in first
    assert "before H-002" in last
    assert "nothing to build there" in found.places[1].reason


def test_a_long_wait_comes_later_and_counts_a_tenth_because_it_holds_up_no_device() -> None:
    queue = [there(1, wait_s=600.0, usd=None), here(2), there(3, "runpod:L4", wait_s=60.0, usd=None)]
    found = rank(queue)
    assert found.order == (2, 3, 1)
    assert found.places[2].weighed_s == pytest.approx(60 + WAITING_COUNTS * 600)
    assert "the wait for its machine is 10 min, against 1 min" in found.places[2].reason
    busy = rank([there(1, wait_s=600.0, usd=None), here(2, 200.0)])
    assert busy.order == (1, 2), "ten minutes of waiting are less than two of a device more"


def test_each_target_takes_the_first_that_it_may_run() -> None:
    """A wait, or a price that waits for approval, keeps nothing here from being tested."""
    found = rank([there(1, wait_s=5.0, usd=0.0), here(2, 300.0), there(3, "runpod:L4", wait_s=900.0)])
    first = {
        target: next(p for p in found.places if p.target == target and p.may_run).hypothesis_id
        for target in ("", "modal:L4", "runpod:L4")
    }
    assert first == {"": 2, "modal:L4": 1, "runpod:L4": 3}


def test_an_hour_that_is_worth_more_makes_dollars_count_less() -> None:
    queue = [there(1, cost_s=10.0, usd=0.10), here(2, 60.0)]
    assert rank(queue, usd_per_hour=2.0).order == (2, 1)
    assert rank(queue, usd_per_hour=20.0).order == (1, 2)
    assert "with an hour worth $20.00 that counts as 28 s" in rank(queue, usd_per_hour=20.0).places[0].reason


def test_what_no_budget_lets_go_says_so_in_its_place() -> None:
    found = rank([there(1, held="It costs $0.60 at most, and the budget of C-1 has $0.10 left."), here(2)])
    assert "not submitted: it costs $0.60 at most, and the budget of C-1 has $0.10 left" in (
        next(place.reason for place in found.places if place.hypothesis_id == 1)
    )


def test_time_that_waits_for_approval_is_of_this_target_and_prices_are_approved_by_the_job() -> None:
    found = {
        place.hypothesis_id: place
        for place in rank(
            [there(1, cost_s=900.0), there(2, "cuda:1", cost_s=900.0, usd=None), here(3, 900.0)],
            approve_above_s=600.0,
        ).places
    }
    assert not found[1].awaits_approval
    assert found[2].awaits_approval
    assert found[3].awaits_approval


def test_a_price_or_a_wait_that_fell_is_named_as_what_moved_it() -> None:
    queue = [here(1, 80.0), there(2, usd=0.10, wait_s=0.0)]
    cheaper = rank([queue[0], there(2, usd=0.01)])
    (up, _) = moves(rank(queue), cheaper, Cause(9, "E-0003 was supported"))
    assert (up.hypothesis_id, up.from_place, up.to_place) == (2, 2, 1)
    assert up.reason.startswith("the price fell from $0.100 to $0.0100")
    waiting = [here(1, 80.0), there(2, usd=None, wait_s=900.0)]
    (up, _) = moves(rank(waiting), rank([waiting[0], there(2, usd=None, wait_s=10.0)]), Cause(9, "a run"))
    assert up.reason.startswith("the wait for its machine fell from 15 min to 10 s")
