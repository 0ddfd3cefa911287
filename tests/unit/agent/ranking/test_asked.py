"""What the campaign's file asks stands behind the user's pins and before all else, in its order."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given

from agent.ranking.moves import moves
from agent.ranking.ranking import rank
from agent.ranking.values import Candidate, Cause, Directive
from db.states import DirectiveKind
from experiments.measurement.evidence import Metric
from tests.unit.agent.ranking.queues import queues

GREAT = Candidate(1, ("compile",), -0.5, 0.05, 0.9, 0.9, 60.0)
PINNED = Candidate(9, ("dtype",), 0.1, 0.01, 0.1, 0.9, 60.0, pinned=True)
FIRST = Candidate(4, ("quantization",), 0.1, 0.01, 0.1, 0.9, 90.0, asked=True)
SECOND = Candidate(5, ("pruning",), -0.4, 0.01, 0.9, 0.9, 10.0, asked=True)


def test_questions_come_in_their_order_whatever_they_pay() -> None:
    ranking = rank([GREAT, SECOND, FIRST, PINNED])
    assert ranking.order == (9, 4, 5, 1)
    assert [place.asked for place in ranking.places] == [False, True, True, False]


def test_what_makes_a_confounded_question_anew_has_its_turn_and_its_other_causes_come_last() -> None:
    anew = replace(FIRST, hypothesis_id=20, asked=False, separates="E-0003", stands_for=3)
    cause = replace(anew, hypothesis_id=21, stands_for=None)
    ranking = rank([GREAT, cause, SECOND, FIRST, anew, PINNED])
    assert ranking.order == (9, 20, 4, 5, 21, 1)
    assert ranking.places[1].reason.startswith(
        "second: separates the causes of E-0003, in the place of H-003;"
    )
    assert ranking.places[4].reason.startswith("fifth: separates the causes of E-0003; ")


def test_the_reason_says_who_asked() -> None:
    assert (
        rank([FIRST, GREAT])
        .places[0]
        .reason.startswith("first: asked by the campaign; probably costs 11 % [9, 12], ")
    )
    assert "asked" not in rank([FIRST, GREAT]).places[1].reason


def test_what_is_claimed_of_a_share_is_told_in_points_of_it() -> None:
    items = replace(FIRST, metric=Metric.TASK_CORRECT, log_ratio_mean=-0.04, log_ratio_sd=0.03)
    bits = replace(SECOND, metric=Metric.NLL_BITS, log_ratio_mean=-0.04, log_ratio_sd=0.03)
    told = [place.reason for place in rank([items, bits]).places]
    assert "could gain 4 points [0, 8] of tasks solved, " in told[0]
    assert "could save 4 % [0, 8] of bits per byte, " in told[1]
    one = replace(items, log_ratio_mean=-0.01)
    assert "could gain 1 point [−3, 5] of tasks solved, " in rank([one]).places[0].reason


def test_a_ban_holds_over_a_question() -> None:
    ban = Directive(DirectiveKind.BAN, 5, "sam", "12:03", "quantization")
    ranking = rank([FIRST, GREAT], [ban])
    assert ranking.order == (1, 4)
    assert ranking.places[1].paused


def test_a_question_is_overtaken_and_never_moves_by_its_own_score() -> None:
    before = rank([FIRST, GREAT])
    after = rank([replace(FIRST, cost_s=1.0), PINNED, GREAT])
    found = {move.hypothesis_id: move.reason for move in moves(before, after, Cause(7, "H-009 came"))}
    assert "H-009 entered the queue ahead of it" in found[4]


@given(queues())
def test_what_is_asked_stands_before_what_is_not(queue: list[Candidate]) -> None:
    mixed = [replace(each, asked=each.hypothesis_id % 3 == 0) for each in queue]
    places = [place for place in rank(mixed).places if not place.pinned]
    flags = [place.asked for place in places]
    assert flags == sorted(flags, reverse=True)
    asked = [place.hypothesis_id for place in places if place.asked]
    assert asked == sorted(asked)
