"""What the desk makes of caps, minimum shares and a question of the night: what it counts, chooses, keeps."""

from __future__ import annotations

from dataclasses import replace

from agent.campaign.choosing import choose
from agent.campaign.desk import Desk
from agent.campaign.order import proposals
from agent.campaign.steered import settling, used_by
from agent.ranking.values import Directive
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
