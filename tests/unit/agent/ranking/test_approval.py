"""What costs more than the user lets the campaign spend unasked waits in its place, and nothing else does."""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from agent.ranking.ranking import rank
from agent.ranking.values import Candidate, Directive
from db.states import DirectiveKind
from tests.unit.agent.ranking.queues import directives, queues

ABOVE_S = 600.0


def costing(number: int, cost_s: float, *, pinned: bool = False) -> Candidate:
    return Candidate(number, ("compile",), -0.1, 0.01, 0.9, 0.9, cost_s, pinned=pinned)


def approval(hypothesis_id: int, up_to_s: float = math.inf) -> Directive:
    return Directive(DirectiveKind.APPROVAL, 41, "you", "12:03", hypothesis_id=hypothesis_id, up_to_s=up_to_s)


@given(queues(), directives(), st.sampled_from([1.0, 30.0, 59.0]))
def test_it_changes_no_place_and_holds_back_exactly_what_costs_more(
    queue: list[Candidate], given_directives: list[Directive], above_s: float
) -> None:
    free, asking = rank(queue, given_directives), rank(queue, given_directives, approve_above_s=above_s)
    assert asking.order == free.order
    for place in asking.places:
        assert place.awaits_approval == (place.cost_s > above_s and not place.paused)
        assert not (place.awaits_approval and place.may_run)
    assert not any(place.awaits_approval for place in free.places)


def test_what_comes_behind_is_next_up() -> None:
    found = rank([costing(1, 700.0, pinned=True), costing(2, 60.0)], approve_above_s=ABOVE_S)
    assert found.order == (1, 2)
    assert found.next_up is not None
    assert found.next_up.hypothesis_id == 2
    assert found.places[0].reason.endswith("; waits for approval, which is asked for above 10 min")


def test_an_approval_is_cited_and_holds_for_its_hypothesis_alone() -> None:
    found = rank([costing(1, 700.0), costing(2, 700.0)], [approval(2)], approve_above_s=ABOVE_S)
    first, second = found.places
    assert (first.awaits_approval, first.approved_by) == (True, None)
    assert (second.awaits_approval, second.approved_by) == (False, 41)
    assert second.reason.endswith("; approved by you at 12:03 (event 41)")


def test_an_approval_holds_for_what_makes_an_untested_claim_anew_and_not_for_what_follows_a_test() -> None:
    anew = replace(costing(2, 700.0), separates="E-0002", stands_for=1, untested=1)
    (place,) = rank([anew], [approval(1)], approve_above_s=ABOVE_S).places
    assert (place.awaits_approval, place.approved_by) == (False, 41)
    (place,) = rank([replace(anew, untested=None)], [approval(1)], approve_above_s=ABOVE_S).places
    assert (place.awaits_approval, place.approved_by) == (True, None)


def test_an_approval_holds_up_to_the_cost_that_it_was_given_for() -> None:
    approved = [approval(1, up_to_s=900.0)]
    assert rank([costing(1, 900.0)], approved, approve_above_s=ABOVE_S).places[0].may_run
    (place,) = rank([costing(1, 1200.0)], approved, approve_above_s=ABOVE_S).places
    assert place.awaits_approval
    assert place.reason.endswith(
        "; waits for approval again: approved up to 15 min by you at 12:03 (event 41), "
        "and expected to take 20 min by now"
    )


def test_an_approval_that_is_not_needed_is_not_cited() -> None:
    (place,) = rank([costing(1, 60.0)], [approval(1)], approve_above_s=ABOVE_S).places
    assert "approv" not in place.reason
    assert place.approved_by is None
