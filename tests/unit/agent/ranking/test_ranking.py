"""The order of the queue and its laws."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from agent.ranking.ranking import BOOST_FACTOR, FOCUS_FACTOR, OFF_OBJECTIVE, expected_gain, rank
from agent.ranking.values import Candidate, Directive
from db.states import DirectiveKind
from experiments.measurement.evidence import Metric
from tests.unit.agent.ranking.queues import LEVERS, directives, queues


def one(
    hypothesis_id: int = 1,
    mean: float = -0.1,
    sd: float = 0.05,
    p_quality: float = 0.8,
    p_feasible: float = 1.0,
    cost_s: float = 60.0,
    levers: tuple[str, ...] = ("compile",),
    pinned: bool = False,
) -> Candidate:
    return Candidate(hypothesis_id, levers, mean, sd, p_quality, p_feasible, cost_s, pinned)


def steer(
    kind: DirectiveKind, lever: str | None = None, event_id: int = 41, pin: int | None = None
) -> Directive:
    return Directive(kind, event_id, "sam", "12:03", lever, pin)


@given(queues())
def test_a_place_keeps_the_belief_that_it_was_ranked_by(queue: list[Candidate]) -> None:
    beliefs = {each.hypothesis_id: (each.log_ratio_mean, each.log_ratio_sd) for each in queue}
    for place in rank(queue).places:
        assert (place.log_ratio_mean, place.log_ratio_sd) == beliefs[place.hypothesis_id]


@given(queues(), directives(), st.randoms(use_true_random=False))
def test_the_order_is_the_same_whatever_order_the_candidates_come_in(
    queue: list[Candidate], given: list[Directive], rng: random.Random
) -> None:
    shuffled, turned = list(queue), list(given)
    rng.shuffle(shuffled)
    rng.shuffle(turned)
    assert rank(queue, given) == rank(shuffled, turned)


@given(queues(), directives())
def test_every_hypothesis_has_one_place_and_places_count_from_one(
    queue: list[Candidate], given: list[Directive]
) -> None:
    found = rank(queue, given)
    assert sorted(found.order) == sorted(candidate.hypothesis_id for candidate in queue)
    assert [place.place for place in found.places] == list(range(1, len(queue) + 1))
    assert all(place.reason for place in found.places)


@given(queues(), directives())
def test_what_is_banned_is_behind_everything_that_is_not(
    queue: list[Candidate], given: list[Directive]
) -> None:
    banned = {each.lever for each in given if each.kind == DirectiveKind.BAN}
    levers = {candidate.hypothesis_id: set(candidate.levers) for candidate in queue}
    paused = [place.paused for place in rank(queue, given).places]
    assert paused == sorted(paused)
    for place in rank(queue, given).places:
        assert place.paused == bool(levers[place.hypothesis_id] & banned)
        assert not place.paused or "banned by" in place.reason


@given(queues(), directives())
def test_what_is_pinned_is_before_everything_that_is_neither_pinned_nor_banned(
    queue: list[Candidate], given: list[Directive]
) -> None:
    running = [place.pinned for place in rank(queue, given).places if not place.paused]
    assert running == sorted(running, reverse=True)


@given(queues())
def test_without_directives_and_pins_the_score_decides_and_ties_go_to_the_lower_id(
    queue: list[Candidate],
) -> None:
    places = [place for place in rank(queue).places if not place.pinned]
    keys = [(-place.score, place.hypothesis_id) for place in places]
    assert keys == sorted(keys)


@given(queues(), directives())
def test_the_score_is_the_product_of_its_parts(queue: list[Candidate], given: list[Directive]) -> None:
    for place in rank(queue, given).places:
        product = place.worth / place.cost_s * place.directive_factor
        assert place.score == pytest.approx(product)


@given(queues())
def test_the_previous_order_changes_no_place_and_is_remembered(queue: list[Candidate]) -> None:
    before = [candidate.hypothesis_id for candidate in reversed(queue)]
    again = rank(queue, previous_order=before)
    assert again.order == rank(queue).order
    assert all(place.came_from == before.index(place.hypothesis_id) + 1 for place in again.places)


def test_pins_keep_the_order_in_which_they_were_pinned() -> None:
    queue = [one(k, mean=-0.1 * k) for k in (1, 2, 3, 4)]
    pins = [steer(DirectiveKind.PIN, event_id=9, pin=2), steer(DirectiveKind.PIN, event_id=5, pin=3)]
    assert rank(queue, pins).order == (3, 2, 4, 1)


def test_a_hypothesis_that_was_enqueued_pinned_comes_after_later_pins_by_name_and_before_the_rest() -> None:
    queue = [one(1, mean=-0.5), one(2, pinned=True), one(3)]
    assert rank(queue, [steer(DirectiveKind.PIN, pin=3)]).order == (3, 2, 1)


def test_a_ban_holds_over_a_pin_and_says_so() -> None:
    ban = steer(DirectiveKind.BAN, "compile")
    found = rank([one(1, pinned=True), one(2, levers=("dtype",))], [ban])
    assert found.order == (2, 1)
    assert "banned by sam at 12:03 (event 41), although it is pinned" in found.places[1].reason


def test_nothing_is_next_when_everything_is_banned() -> None:
    assert rank([one()], [steer(DirectiveKind.BAN, "compile")]).next_up is None


@pytest.mark.parametrize(
    ("kind", "factor", "word"),
    [(DirectiveKind.FOCUS, FOCUS_FACTOR, "focus on"), (DirectiveKind.BOOST, BOOST_FACTOR, "boost of")],
)
def test_focus_and_boost_multiply_the_score_and_are_cited_with_who_and_when(
    kind: DirectiveKind, factor: float, word: str
) -> None:
    [plain] = rank([one()]).places
    [steered] = rank([one()], [steer(kind, "compile")]).places
    assert steered.score == pytest.approx(factor * plain.score)
    assert f"{word} compile by sam at 12:03 (event 41)" in steered.reason


def test_a_change_of_several_levers_is_covered_by_a_ban_of_one() -> None:
    found = rank([one(levers=("compile", "pruning"))], [steer(DirectiveKind.BAN, "pruning")])
    assert found.places[0].paused


def test_the_reason_names_the_place_what_it_saves_and_what_speaks_against_it() -> None:
    queue = [
        one(1, mean=-0.9),
        one(2, mean=-0.8),
        one(3, mean=math.log(0.92), sd=0.05, p_quality=0.6, cost_s=70),
    ]
    reason = rank(queue).places[2].reason
    assert reason == "third: could save 8 % [2, 14], quality held with P 0.60, runs with P 1.00, 1 min 10 s"


def test_the_reason_of_what_is_expected_to_be_slower_says_what_it_costs() -> None:
    (place,) = rank([one(mean=math.log(1.2), sd=0.2, cost_s=70)]).places
    assert place.reason.startswith("first: probably costs 20 % [−7, 55], quality held")


def test_of_two_beliefs_with_one_mean_the_wider_comes_first() -> None:
    assert rank([one(1, sd=0.01), one(2, sd=0.2)]).order == (2, 1)


def test_a_hypothesis_that_stands_twice_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="once only"):
        rank([one(1), one(1)])


def test_an_empty_queue_has_an_empty_ranking() -> None:
    assert rank([]).places == ()


@pytest.mark.parametrize(("mean", "sd"), [(-0.1, 0.05), (0.1, 0.2), (0.0, 0.3), (-0.5, 0.01)])
def test_the_expected_gain_is_the_integral_over_improvements(mean: float, sd: float) -> None:
    grid = np.linspace(mean - 8 * sd, mean + 8 * sd, 200_001)
    integrand = np.maximum(0, -np.expm1(grid)) * norm.pdf(grid, mean, sd)
    found = expected_gain(np.array([mean]), np.array([sd]))[0]
    assert found == pytest.approx(np.trapezoid(integrand, grid), abs=1e-6)


@given(st.floats(-1, 1), st.floats(0, 1))
def test_the_expected_gain_is_a_share_and_never_negative(mean: float, sd: float) -> None:
    assert 0 <= expected_gain(np.array([mean]), np.array([sd]))[0] < 1


def test_levers_used_by_the_generated_queues_are_more_than_one() -> None:
    assert len(LEVERS) > 1


@given(queues(), directives())
def test_a_claim_on_another_metric_is_worth_a_tenth_and_says_what_it_could_save(
    queue: list[Candidate], steering: list[Directive]
) -> None:
    off = [replace(each, metric=Metric.STEP_WEIGHT_BYTES) for each in queue]
    before = {place.hypothesis_id: place for place in rank(queue, steering).places}
    for place in rank(off, steering).places:
        own = before[place.hypothesis_id]
        assert place.gain == pytest.approx(OFF_OBJECTIVE * own.gain)
        assert place.worth == pytest.approx(OFF_OBJECTIVE * own.worth)
        assert "] of bytes a step, quality held" in place.reason


def test_by_what_launches_differ_nothing_is_gained() -> None:
    """Two kernels that are expected to do the same: the one of which more is open is worth more, the one that
    is only measured less exactly is not."""
    known = one(1, sd=0.1)
    open_more, noisier = one(2, sd=0.2), replace(one(3, sd=0.2), launches_sd_log=math.sqrt(0.03))
    gains = {place.hypothesis_id: place.gain for place in rank([known, open_more, noisier]).places}
    assert gains[2] > gains[1] == pytest.approx(gains[3])
