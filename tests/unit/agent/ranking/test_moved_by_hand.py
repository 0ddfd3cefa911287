"""What the user moved stays where it was put, for as long as that means anything."""

from __future__ import annotations

from hypothesis import given

from agent.ranking.moves import moves
from agent.ranking.ranking import rank
from agent.ranking.values import Candidate, Cause, Directive
from db.states import DirectiveKind
from tests.unit.agent.ranking.queues import directives, queues


def five(*without: int) -> list[Candidate]:
    """Hypotheses 1 to 5, the best first."""
    return [
        Candidate(number, ("compile",), -0.1 / number, 0.01, 0.9, 0.9, 60.0)
        for number in range(1, 6)
        if number not in without
    ]


def to(hypothesis_id: int, *ahead: int, event_id: int = 41) -> Directive:
    return Directive(
        DirectiveKind.PRIORITY,
        event_id,
        "you",
        "12:03",
        hypothesis_id=hypothesis_id,
        ahead=frozenset(ahead),
    )


def test_it_stands_behind_what_was_ahead_of_its_place_and_says_who_put_it_there() -> None:
    found = rank(five(), [to(5, 1)])
    assert found.order == (1, 5, 2, 3, 4)
    assert found.places[1].moved_by == 41
    assert "; moved here by you at 12:03 (event 41)" in found.places[1].reason


def test_a_move_down_holds_it_back() -> None:
    assert rank(five(), [to(1, 2, 3)]).order == (2, 3, 1, 4, 5)


def test_it_rises_as_what_is_ahead_ends_and_nothing_new_gets_ahead() -> None:
    new = Candidate(9, ("compile",), -0.9, 0.01, 0.9, 0.9, 60.0)
    assert rank([*five(1), new], [to(5, 1, 2)]).order == (9, 5, 2, 3, 4)
    assert rank([*five(1, 2), new], [to(5, 1, 2)]).order == (5, 9, 3, 4)


def test_of_two_at_one_place_the_later_move_stands_first() -> None:
    assert rank(five(), [to(5, 1, event_id=7), to(4, 1, event_id=8)]).order == (1, 4, 5, 2, 3)


def test_it_stays_before_what_is_banned_however_far_down_it_was_moved() -> None:
    banned = [Candidate(number, ("dtype",), -0.9, 0.01, 0.9, 0.9, 60.0) for number in (6, 7)]
    ban = Directive(DirectiveKind.BAN, 3, "you", "12:00", lever="dtype")
    found = rank([*five(), *banned], [to(1, 2, 3, 4, 5, 6, 7), to(2, 3, 4, 5, 6, 7, event_id=42), ban])
    assert found.order == (3, 4, 5, 2, 1, 6, 7)


def test_the_move_is_told_as_one_by_hand() -> None:
    found = moves(rank(five()), rank(five(), [to(5)]), Cause(41, "your directive"))
    told = {each.hypothesis_id: each.reason for each in found}
    assert told[5] == "moved by hand, after your directive (event 41)"
    assert told[1] == "overtaken by H-005, after your directive (event 41)"
    found = moves(rank(five(), [to(5)]), rank(five()), Cause(42, "your directive"))
    assert found[-1].reason.startswith("no longer held by a move")


@given(queues(), directives())
def test_what_was_not_moved_keeps_its_order_among_itself(
    queue: list[Candidate], given: list[Directive]
) -> None:
    moved = {each.hypothesis_id for each in given if each.kind == DirectiveKind.PRIORITY}
    without = [each for each in given if each.kind != DirectiveKind.PRIORITY]
    left = [each for each in rank(queue, given).order if each not in moved]
    assert left == [each for each in rank(queue, without).order if each not in moved]
