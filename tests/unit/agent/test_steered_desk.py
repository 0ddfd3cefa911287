"""What the desk makes of caps, minimum shares and a question of the night: what it counts, chooses, keeps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.campaign.decision.choosing import choose
from agent.campaign.decision.desk import Desk
from agent.campaign.decision.steered import settling, used_by
from agent.campaign.queue.order import proposals
from agent.ranking.moves import moves
from agent.ranking.values import Cause, Directive
from configs.campaign import ApprovalSpec
from db.states import DirectiveKind
from experiments.measurement.judging import Outcome
from tests.unit.agent.test_desk import BASELINE, COMPILED, PRUNED, SPACE, desk, queued, trial

THREADS = SPACE.with_change(BASELINE, {"serving.threads": 2})
DEEPER = SPACE.with_change(PRUNED, {"pruning.layers_removed": 2})
BOTH = SPACE.with_change(PRUNED, {"serving.threads": 2})
REFUTED = trial(8, BASELINE, PRUNED, Outcome.REFUTED, 0.0)


def about(kind: DirectiveKind, lever: str | None = None, **more: object) -> Directive:
    return replace(Directive(kind, 41, "you", "12:03", lever), **more)


def steered(desk: Desk, *directives: Directive) -> Desk:
    return replace(desk, directives=directives)


def test_tests_and_seconds_are_counted_for_each_lever_and_what_is_under_test_counts_too() -> None:
    found = desk(trials=(REFUTED, trial(9, BASELINE, BOTH, Outcome.INCONCLUSIVE)))
    facts = replace(found.facts, flying=((BASELINE, COMPILED),))
    used = used_by(facts, SPACE, [about(DirectiveKind.CAP, "pruning", tests=3)], lambda _: 45.0)
    assert used.tests == 3
    assert dict(used.of_lever) == {"pruning": 2, "threads": 1, "compile": 1}
    assert dict(used.seconds_of) == {"pruning": 120.0, "threads": 60.0, "compile": 45.0}


def test_nothing_is_counted_where_no_directive_asks() -> None:
    found = desk(queued(1, COMPILED), trials=(REFUTED,))
    assert used_by(found.facts, SPACE, (), lambda _: 0.0).tests == 0


def test_nothing_of_a_used_up_lever_is_tested_and_nothing_of_it_is_proposed() -> None:
    capped = steered(
        desk(queued(1, DEEPER), queued(2, THREADS), trials=(REFUTED,)),
        about(DirectiveKind.CAP, "pruning", tests=1),
    )
    assert [(place.hypothesis_id, place.paused) for place in capped.ranking.places] == [(2, False), (1, True)]
    assert "pruning" in capped.view.banned_levers
    drafts = proposals(capped)
    assert drafts
    assert not any("pruning" in each.lever for each in drafts)


def test_a_cap_that_is_not_used_up_leaves_its_lever_to_the_proposers() -> None:
    capped = steered(desk(trials=(REFUTED,)), about(DirectiveKind.CAP, "pruning", tests=2))
    assert "pruning" not in capped.view.banned_levers


def test_a_campaign_whose_rest_a_cap_of_a_share_holds_back_ends_and_says_so() -> None:
    capped = steered(desk(queued(1, PRUNED)), about(DirectiveKind.CAP, "pruning", share=0.3))
    choice = choose(capped, 400)
    assert choice.hypothesis is None
    assert choice.reason == "everything left in the queue is held back by a cap (1 in all)"


def test_a_campaign_of_which_bans_leave_nothing_to_propose_ends_and_cites_them() -> None:
    both = about(DirectiveKind.BAN, "pruning"), replace(about(DirectiveKind.BAN, "compile"), event_id=42)
    assert choose(steered(desk(), *both), 400).reason == (
        "nothing is left in the queue, since nothing is proposed of what is banned: "
        "pruning by you at 12:03 (event 41), compile by you at 12:03 (event 42)"
    )
    assert "banned" not in choose(steered(desk(), about(DirectiveKind.FOCUS, "pruning")), 400).reason


def test_what_a_cap_of_a_share_lets_come_later_is_not_tested_before_what_must_come_first() -> None:
    capped = steered(
        desk(queued(1, PRUNED), queued(2, COMPILED)), about(DirectiveKind.CAP, "pruning", share=0.5)
    )
    assert capped.ranking.order == (2, 1)
    assert capped.ranking.places[1].early
    choice = choose(capped, 400)
    assert choice.hypothesis is not None
    assert choice.hypothesis.id == 2
    only_the_capped_one_fits = choose(capped, capped.ranking.places[1].cost_s + 1)
    assert only_the_capped_one_fits.hypothesis is None
    assert only_the_capped_one_fits.reason == (
        "nothing is left that a cap lets come next: H-001 may come only after tests of other levers"
    )


def test_a_minimum_share_is_kept_from_the_first_test_on() -> None:
    owing = steered(
        desk(queued(1, COMPILED), queued(2, PRUNED), queued(3, THREADS)),
        about(DirectiveKind.RESERVE, "threads", share=0.2),
    )
    choice = choose(owing, 400)
    assert choice.hypothesis is not None
    assert choice.hypothesis.id == 3


def test_the_question_is_tested_first_even_before_the_first_verdict_and_is_not_withdrawn() -> None:
    asked = about(DirectiveKind.QUESTION, hypothesis_id=3)
    better = trial(9, BASELINE, COMPILED, Outcome.SUPPORTED)
    found = steered(desk(queued(1, PRUNED), queued(3, THREADS), trials=(better,)), asked)
    assert set(found.leaving) == {1}
    fresh = steered(desk(queued(1, COMPILED), queued(2, PRUNED), queued(3, THREADS)), asked)
    choice = choose(fresh, 400)
    assert choice.hypothesis is not None
    assert choice.hypothesis.id == 3


def test_what_separates_the_causes_of_the_question_settles_it_too() -> None:
    asked = about(DirectiveKind.QUESTION, hypothesis_id=8)
    part = replace(queued(2, THREADS), separates="E-0008")
    other = replace(queued(3, COMPILED), separates="E-0007")
    found = desk(part, other, trials=(replace(REFUTED, outcome=Outcome.CONFOUNDED, effect_log=None),))
    assert settling(found.facts, [asked]) == {2: "H-008"}
    assert settling(found.facts, []) == {}
    assert steered(found, asked).ranking.order[0] == 2


def of_ten(tests: int, disputes_tested: int = 0) -> Desk:
    """A desk with a great hypothesis and two that take disputes apart, after so many tests."""
    disputed = [replace(queued(each, PRUNED), disputes=("F-002", "F-001")) for each in (6, 5)]
    trials = tuple(trial(20 + each, BASELINE, THREADS, Outcome.REFUTED, 0.0) for each in range(tests))
    found = desk(queued(1, COMPILED), *disputed, trials=trials)
    return replace(found, facts=replace(found.facts, disputes_tested=disputes_tested))


@pytest.mark.parametrize(
    ("tests", "disputes_tested", "first"),
    [(8, 0, 1), (9, 0, 5), (12, 0, 5), (12, 1, 1), (18, 1, 1), (19, 1, 5), (19, 2, 1)],
)
def test_one_test_in_ten_takes_a_dispute_apart_once_the_others_have_been(
    tests: int, disputes_tested: int, first: int
) -> None:
    places = of_ten(tests, disputes_tested).ranking.places
    assert places[0].hypothesis_id == first
    assert places[0].asked == (first == 5)
    assert [place.asked for place in places[1:]] == [False, False]  # one at a time
    assert ("takes the dispute of F-002 and F-001 apart, one test in 10; " in places[0].reason) == (
        first == 5
    )


def test_what_is_under_test_counts_and_a_ban_holds_over_a_turn() -> None:
    found = of_ten(8)
    flying = replace(found, facts=replace(found.facts, flying=((BASELINE, THREADS),)))
    assert flying.ranking.places[0].hypothesis_id == 5
    banned = steered(flying, about(DirectiveKind.BAN, "pruning"))
    assert (banned.disputes_in_turn, banned.ranking.places[0].hypothesis_id) == ((), 1)
    third = replace(queued(7, THREADS), disputes=("F-004", "F-003"))
    facts = replace(banned.facts, queue=(*banned.facts.queue, third))
    assert replace(banned, facts=facts).disputes_in_turn == (7,), "what is banned keeps no other's turn"


def test_a_dispute_that_waits_for_approval_keeps_no_other_s_turn() -> None:
    waits = replace(queued(5, THREADS), disputes=("F-002", "F-001"))
    free = replace(queued(7, DEEPER), disputes=("F-004", "F-003"))
    found = of_ten(9)
    two = replace(found, facts=replace(found.facts, queue=(queued(1, COMPILED), waits, free)))
    costs = {place.hypothesis_id: place.cost_s for place in two.ranking.places}
    assert costs[7] < costs[5], "the scene needs an oldest that costs more"
    asks = ApprovalSpec(wall_s=(costs[7] + costs[5]) / 2)
    asking = replace(
        two, facts=replace(two.facts, spec=two.facts.spec.model_copy(update={"approve_above": asks}))
    )
    assert first_of(asking) == (7, True)
    approved = steered(asking, about(DirectiveKind.APPROVAL, hypothesis_id=5))
    assert first_of(approved) == (5, True)
    alone = replace(asking, facts=replace(asking.facts, queue=(queued(1, COMPILED), waits)))
    assert first_of(alone) == (5, False), "where none may be tested the oldest is shown with its turn"
    assert 5 in choose(alone, 4000.0).waits


def test_a_dispute_that_a_cap_holds_back_keeps_no_other_s_turn() -> None:
    found = of_ten(9)
    free = replace(queued(7, THREADS), disputes=("F-004", "F-003"))
    three = replace(found, facts=replace(found.facts, queue=(*found.facts.queue, free)))
    assert first_of(three) == (5, True)
    capped = steered(three, about(DirectiveKind.CAP, "pruning", share=0.05))
    assert first_of(capped) == (7, True)


def first_of(desk: Desk) -> tuple[int, bool]:
    """What stands first, and whether it may be tested."""
    first = desk.ranking.places[0]
    return first.hypothesis_id, first.may_run


def test_a_turn_that_has_come_is_why_it_moved() -> None:
    found = moves(of_ten(8).ranking, of_ten(9).ranking, Cause(7, "E-0009 was refuted"))
    told = {move.hypothesis_id: (move.from_place, move.to_place, move.reason) for move in found}
    came, to, why = told[5]
    assert (came, to) == (2, 1)
    assert why.startswith("its turn has come, one test in 10 takes a dispute apart, after E-0009 was refuted")
    back = moves(of_ten(9).ranking, of_ten(10, 1).ranking, Cause(8, "E-0010 was refuted"))
    assert next(each for each in back if each.hypothesis_id == 5).reason.startswith("another had its turn, ")
