"""Every move has its reason and the event behind it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from agent.ranking.moves import moves
from agent.ranking.ranking import rank
from agent.ranking.values import Candidate, Cause, Directive, Steering, Used
from db.states import DirectiveKind
from tests.unit.agent.ranking.queues import directives, queues

CAUSE = Cause(41, "E-0003 refuted H-009")


def queue(*means: float) -> list[Candidate]:
    return [
        Candidate(number, ("compile",), mean, 0.01, 0.9, 0.9, 60.0)
        for number, mean in enumerate(means, start=1)
    ]


def reasons(
    before: list[Candidate], after: list[Candidate], steer: list[Directive] | None = None
) -> dict[int, str]:
    found = moves(rank(before), rank(after, steer or []), CAUSE)
    return {move.hypothesis_id: move.reason for move in found}


@given(queues(), queues(), directives(), directives())
def test_exactly_what_changed_its_place_moved_and_each_move_cites_its_event(
    before: list[Candidate], after: list[Candidate], old: list[Directive], new: list[Directive]
) -> None:
    was, now = rank(before, old), rank(after, new)
    found = moves(was, now, CAUSE)
    places_before = {h: k for k, h in enumerate(was.order, start=1)}
    places_after = {h: k for k, h in enumerate(now.order, start=1)}
    expected = {
        h for h in places_before.keys() | places_after.keys() if places_before.get(h) != places_after.get(h)
    }
    assert sorted(move.hypothesis_id for move in found) == sorted(expected)
    for move in found:
        assert move.from_place == places_before.get(move.hypothesis_id)
        assert move.to_place == places_after.get(move.hypothesis_id)
        assert move.event_id == CAUSE.event_id
        assert move.reason.endswith(", after E-0003 refuted H-009 (event 41)")
        assert not move.reason.startswith(",")


@given(queues(), directives())
def test_an_order_that_stays_has_no_moves(before: list[Candidate], given: list[Directive]) -> None:
    assert moves(rank(before, given), rank(before, given), CAUSE) == []


@given(queues(), queues())
def test_moves_are_the_same_every_time(before: list[Candidate], after: list[Candidate]) -> None:
    assert moves(rank(before), rank(after), CAUSE) == moves(rank(before), rank(after), CAUSE)


def test_a_belief_that_fell_is_named_with_both_values_and_who_it_passed_says_overtook() -> None:
    before = queue(-0.3, -0.2)
    after = [replace(before[0], p_quality=0.1), before[1]]
    found = reasons(before, after)
    assert found[1].startswith("the chance that quality holds fell from 0.9 to 0.1")
    assert found[2].startswith("overtook H-001")


def test_a_chance_that_was_gone_already_is_no_cause() -> None:
    before = [replace(each, p_quality=p) for each, p in zip(queue(-0.3, -0.2), (1e-9, 1e-10), strict=True)]
    after = [replace(before[0], p_quality=1e-12), before[1]]
    found = reasons(before, after)
    assert found[1].startswith("overtaken by H-002")
    gone = reasons(queue(-0.3, -0.2), [replace(queue(-0.3, -0.2)[0], p_quality=1e-12), queue(-0.3, -0.2)[1]])
    assert gone[1].startswith("the chance that quality holds fell from 0.9 to < 0.01")


def test_a_gain_that_was_next_to_nothing_already_is_no_cause() -> None:
    before = queue(0.3, 0.31)
    after = [replace(before[0], log_ratio_mean=0.4), before[1]]
    assert reasons(before, after)[1].startswith("overtaken by H-002")
    gone = reasons(queue(-0.3, -0.2), [queue(0.3)[0], queue(-0.3, -0.2)[1]])
    told = "the expected gain fell from 26 % to next to nothing (worse outcomes count as 0), after "
    assert gone[1].startswith(told)


def test_of_several_changed_parts_the_one_that_moved_it_most_is_named() -> None:
    before = queue(-0.3, -0.2)
    after = [replace(before[0], cost_s=66.0, p_feasible=0.2), before[1]]
    assert reasons(before, after)[1].startswith("the chance that it runs fell from 0.9 to 0.2")


def test_a_cost_that_fell_moves_up() -> None:
    before = queue(-0.3, -0.2)
    assert reasons(before, [before[0], replace(before[1], cost_s=6.0)])[2].startswith(
        "the expected cost fell from 1 min to 6 s"
    )


def test_what_was_removed_ahead_is_named() -> None:
    before = queue(-0.3, -0.2, -0.1)
    found = reasons(before, before[1:])
    assert found[1].startswith("left the queue")
    assert found[2].startswith("H-001 left the queue ahead of it")
    assert found[3].startswith("H-001 left the queue ahead of it")


def test_a_cap_that_begins_to_bear_by_a_verdict_is_not_told_as_another_directives_doing() -> None:
    before = [*queue(-0.3, -0.2), Candidate(3, ("dtype",), -0.1, 0.01, 0.9, 0.9, 60.0)]
    cap = Directive(DirectiveKind.CAP, 7, "sam", "12:03", "compile", tests=2)
    focus = Cause(44, "your directive: focus on dtype")
    was = rank(before, [cap])
    now = rank(before, [cap], used=Used(1, {"compile": 1}, {"compile": 60.0}))

    def told(steering: Steering) -> str:
        return next(each.reason for each in moves(was, now, CAUSE, steering) if each.hypothesis_id == 2)

    assert told(Steering({}, focus, frozenset({44}))).endswith("after E-0003 refuted H-009 (event 41)")
    given = Cause(7, "your directive: cap compile")
    assert told(Steering({}, given, frozenset({7}))).endswith("after your directive: cap compile (event 7)")


def test_what_left_says_what_became_of_it() -> None:
    before = queue(-0.3, -0.2)
    told = moves(rank(before), rank(before[1:]), CAUSE, None, {1: "tested", 2: "withdrawn (too slow)"})
    reasons_told = {move.hypothesis_id: move.reason for move in told}
    assert reasons_told[1] == "left the queue: tested, after E-0003 refuted H-009 (event 41)"
    assert "withdrawn" not in reasons_told[2], "it is there still"


def test_what_entered_ahead_is_named_and_enters_with_its_place() -> None:
    before = queue(-0.2, -0.1)
    found = reasons(before, [*before, replace(before[0], hypothesis_id=9, log_ratio_mean=-0.5)])
    assert found[9].startswith("entered the queue as first")
    assert found[1].startswith("H-009 entered the queue ahead of it")


def test_who_was_overtaken_by_several_names_the_first_and_counts_the_rest() -> None:
    before = queue(-0.5, -0.1, -0.09, -0.08)
    after = [before[0], *(replace(candidate, cost_s=1.0) for candidate in before[1:])]
    assert reasons(before, after)[1].startswith("overtaken by H-002 and 2 more")


def test_who_gained_less_than_others_and_fell_is_overtaken_and_not_said_to_have_risen() -> None:
    before = queue(-0.2, -0.1)
    after = [replace(before[0], p_quality=0.95), replace(before[1], cost_s=1.0)]
    assert reasons(before, after)[1].startswith("overtaken by H-002")


def test_a_part_that_points_the_other_way_is_no_cause() -> None:
    before = queue(-0.3, -0.2)
    # It gains too little to show, costs visibly more, and rises because the other fell further.
    after = [
        replace(before[0], cost_s=600.0),
        replace(before[1], p_feasible=0.902, cost_s=60.1),
    ]
    assert reasons(before, after)[2].startswith("overtook H-001")


def test_a_directive_is_the_reason_of_the_moves_it_makes() -> None:
    before = [*queue(-0.3), Candidate(2, ("dtype",), -0.2, 0.01, 0.9, 0.9, 60.0)]
    boost = Directive(DirectiveKind.BOOST, 41, "sam", "12:03", "dtype")
    ban = Directive(DirectiveKind.BAN, 41, "sam", "12:03", "compile")
    pin = Directive(DirectiveKind.PIN, 41, "sam", "12:03", hypothesis_id=2)
    assert reasons(before, before, [boost])[2].startswith("the factor of the directives rose from 1 to 2")
    assert reasons(before, before, [ban])[1].startswith("paused by a ban")
    assert reasons(before, before, [pin])[2].startswith("pinned")


def test_what_a_directive_moved_cites_it_although_a_verdict_came_meanwhile() -> None:
    before = queue(-0.3, -0.2, -0.1)
    pinned = Directive(DirectiveKind.PIN, 43, "sam", "12:03", hypothesis_id=3)
    pin, focus = Cause(43, "your directive: pin H-003"), Cause(44, "your directive: focus on dtype")
    found = {
        move.hypothesis_id: move
        for move in moves(rank(before), rank(before, [pinned]), CAUSE, Steering({3: pin}, focus))
    }
    assert (found[3].event_id, found[3].reason) == (43, "pinned, after your directive: pin H-003 (event 43)")
    assert found[1].event_id == found[2].event_id == CAUSE.event_id, "they were overtaken, not steered"
    banned = Directive(DirectiveKind.BAN, 45, "sam", "12:04", "compile")
    ban = Cause(45, "your directive: ban compile")
    others = [*before, Candidate(4, ("dtype",), -0.01, 0.01, 0.9, 0.9, 60.0)]
    told = moves(rank(others), rank(others, [banned]), CAUSE, Steering({}, ban))
    assert {move.event_id for move in told if move.reason.startswith("paused by a ban")} == {45}


@given(queues(), st.integers(0, 11))
def test_replaying_the_moves_gives_the_new_order(before: list[Candidate], number: int) -> None:
    after = [replace(c, cost_s=0.5) if k == number else c for k, c in enumerate(before)]
    was, now = rank(before), rank(after)
    places = {h: k for k, h in enumerate(was.order, start=1)}
    for move in moves(was, now, CAUSE):
        assert move.to_place is not None
        places[move.hypothesis_id] = move.to_place
    assert tuple(sorted(places, key=lambda h: places[h])) == now.order
