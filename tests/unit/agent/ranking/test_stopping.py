"""When nothing is left that is worth its price."""

from __future__ import annotations

from dataclasses import replace

from agent.ranking.ranking import rank
from agent.ranking.stopping import WORTH, nothing_worth_it
from agent.ranking.values import Candidate, Directive
from db.states import DirectiveKind
from knowledge.going_on import helped_by_time, is_exhausted

GOOD = Candidate(1, ("compile",), -0.3, 0.05, 0.9, 0.9, 60.0)
POOR = Candidate(2, ("dtype",), 0.05, 0.01, 0.9, 0.9, 60.0)


def test_a_candidate_of_some_promise_keeps_the_campaign_going() -> None:
    assert nothing_worth_it(rank([GOOD, POOR])) is None


def test_candidates_without_promise_end_it_with_what_the_best_would_save() -> None:
    reason = nothing_worth_it(rank([POOR]))
    assert reason is not None
    assert "H-002, is expected to save 0.00 %" in reason
    assert f"{100 * WORTH:g} %" in reason


def test_pages_know_these_ends_for_what_more_time_would_not_change() -> None:
    for left in ([POOR], []):
        reason = nothing_worth_it(rank(left))
        assert reason is not None
        ended = reason[0].lower() + reason[1:]
        assert is_exhausted(ended)
        assert not helped_by_time(ended)


def test_the_price_of_an_experiment_does_not_make_a_great_gain_worthless() -> None:
    dear = Candidate(3, ("compile",), -0.3, 0.05, 0.9, 0.9, 1e6)
    assert nothing_worth_it(rank([dear])) is None


def test_an_unlikely_quality_makes_a_gain_worthless() -> None:
    doubtful = Candidate(3, ("pruning",), -0.3, 0.05, 0.01, 0.9, 60.0)
    assert nothing_worth_it(rank([doubtful])) is not None


def test_what_the_user_pinned_is_always_worth_it() -> None:
    pin = Directive(DirectiveKind.PIN, 5, "sam", "12:03", hypothesis_id=2)
    assert nothing_worth_it(rank([POOR], [pin])) is None


def test_what_the_user_moved_by_hand_is_always_worth_it() -> None:
    by_hand = Directive(DirectiveKind.PRIORITY, 5, "sam", "12:03", hypothesis_id=2)
    assert nothing_worth_it(rank([POOR], [by_hand])) is None


def test_what_is_banned_does_not_keep_it_going() -> None:
    ban = Directive(DirectiveKind.BAN, 5, "sam", "12:03", "compile")
    assert nothing_worth_it(rank([GOOD, POOR], [ban])) is not None
    assert nothing_worth_it(rank([GOOD], [ban])) == "Everything left in the queue is banned (1 in all)."


def test_an_empty_queue_ends_it() -> None:
    assert nothing_worth_it(rank([])) == "Nothing is left in the queue."


def test_what_the_campaign_asks_is_always_worth_it() -> None:
    assert nothing_worth_it(rank([replace(POOR, asked=True)])) is None
