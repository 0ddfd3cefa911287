"""What would follow from a verdict: the same ranking, with the outcome assumed."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from agent.asking.assumed import parse_assumed
from agent.asking.rows import consequence_section
from agent.asking.what_if import Consequence, what_if, what_if_unranked
from agent.campaign.decision.desk import Desk
from agent.ranking.values import Directive
from configs.errors import UsageError
from db.states import DirectiveKind
from experiments.measurement.judging import Outcome
from tests.unit.agent.test_desk import BASELINE, COMPILED, PRUNED, SPACE, desk, queued

DEEPER = SPACE.with_change(PRUNED, {"pruning.layers_removed": 2})
HALF = SPACE.with_change(BASELINE, {"serving.dtype": "bfloat16"})


def test_an_assumed_verdict_ranks_the_rest_as_that_verdict_would() -> None:
    asked = desk(queued(1, COMPILED), queued(2, PRUNED), queued(3, DEEPER), queued(4, HALF))
    before = asked.ranking.order
    found = {each.outcome: each for each in what_if(asked, 2)}
    assert set(found) == {Outcome.SUPPORTED, Outcome.REFUTED, Outcome.INFEASIBLE}
    for each in found.values():
        assert 2 not in {shift.hypothesis_id for shift in each.shifts}
        assert all(before[(shift.from_place or 0) - 1] == shift.hypothesis_id for shift in each.shifts)
    assert found[Outcome.SUPPORTED].leave == (1, 3, 4)
    assert found[Outcome.REFUTED].leave == ()
    assert asked.ranking.order == before


def test_without_the_model_s_shape_it_is_told_who_would_be_best_and_who_leaves_and_no_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = desk(queued(1, COMPILED), queued(2, PRUNED), queued(3, DEEPER), queued(4, HALF))
    known = {each.outcome: (each.is_best, each.leave) for each in what_if(asked, 2)}
    monkeypatch.setattr(Desk, "beliefs", property(lambda desk: pytest.fail("beliefs need the shape")))
    found = what_if_unranked(asked, 2)
    assert {each.outcome: (each.is_best, each.leave) for each in found} == known
    assert known[Outcome.SUPPORTED] == (True, (1, 3, 4))
    assert [(each.ranked, each.shifts, each.next_up) for each in found] == [(False, (), None)] * 3
    assert what_if_unranked(asked, 9) == ()
    with pytest.raises(UsageError, match="must save to be supported"):
        what_if_unranked(asked, 2, [parse_assumed("supported:-0.1%")])


def test_what_leaves_the_queue_stands_in_one_row() -> None:
    asked = desk(queued(1, COMPILED), queued(2, PRUNED), queued(3, DEEPER), queued(4, HALF))
    (found,) = what_if(asked, 2, [parse_assumed("supported")])

    def leaving(consequence: Consequence) -> list[tuple[str | None, str | None, str]]:
        told = consequence_section("The queue", asked, consequence).rows
        return [(each.relation, each.id, each.text) for each in told if "leave" in str(each.relation)]

    assert leaving(found) == [("3 leave the queue", None, "H-001, H-003 and H-004")]
    ((relation, label, text),) = leaving(replace(found, leave=(3,)))
    assert (relation, label) == ("leaves the queue", "H-003")
    assert text


def test_where_order_does_not_change_nothing_is_told_and_what_does_not_wait_has_no_consequence() -> None:
    alone = desk(queued(1, COMPILED), queued(2, replace(HALF)))
    assert all(each.moved == 0 for each in what_if(alone, 1))
    assert what_if(alone, 9) == ()


def test_an_effect_of_the_users_is_assumed_in_place_of_what_is_believed() -> None:
    asked = desk(queued(1, COMPILED), queued(2, PRUNED), queued(3, DEEPER), queued(4, HALF))
    (small,) = what_if(asked, 1, [parse_assumed("supported:-4%")])
    (large,) = what_if(asked, 1, [parse_assumed("supported:-60%")])
    assert small.assumed.words == "is supported with −4.0 %"
    assert small.is_best
    assert large.is_best
    assert math.isclose(large.assumed.effect_log or 0.0, math.log(0.4))


def test_what_would_be_tested_next_is_told() -> None:
    asked = desk(queued(1, COMPILED), queued(2, PRUNED), queued(4, HALF))
    (refuted,) = what_if(asked, asked.ranking.order[0], [parse_assumed("refuted")])
    assert refuted.next_up in asked.ranking.order[1:]
    assert not refuted.is_best


@pytest.mark.parametrize(("share", "of_the_lever"), [(0.5, False), (1.0, True)])
def test_an_assumed_test_counts_for_the_minimum_share_of_its_lever(share: float, of_the_lever: bool) -> None:
    kept = Directive(DirectiveKind.RESERVE, 41, "you", "12:03", "pruning", share=share)
    asked = replace(desk(queued(1, COMPILED), queued(2, PRUNED), queued(3, DEEPER)), directives=(kept,))
    first = asked.ranking.order[0]
    assert first in (2, 3)
    (infeasible,) = what_if(asked, first, [parse_assumed("infeasible")])
    assert (infeasible.next_up != 1) is of_the_lever


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("inconclusive", "teaches next to nothing"),
        ("confounded", "teaches next to nothing"),
        ("maybe", "'maybe' is no outcome"),
        ("", "'' is no outcome"),
        ("refuted:-5%", "Only a supported verdict comes with an effect"),
        ("supported:5%", "and 5% does not"),
        ("supported:-100%", "and -100% does not"),
        ("supported:-12", "'-12' is not a percentage"),
    ],
)
def test_what_can_not_be_assumed_is_refused_in_a_sentence(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        parse_assumed(text)
    assert refused.value.hint


def test_an_effect_below_what_would_be_supported_or_on_another_metric_is_refused() -> None:
    bytes_ = replace(queued(2, PRUNED), metric="step_weight_bytes")
    asked = desk(queued(1, COMPILED), bytes_)
    with pytest.raises(UsageError, match=r"−2\.0 % is less than the 3 % that H-001 must save"):
        what_if(asked, 1, [parse_assumed("supported:-2%")])
    with pytest.raises(UsageError, match="H-002 is about bytes a step"):
        what_if(asked, 2, [parse_assumed("supported:-20%")])
    assert len(what_if(asked, 2)) == 3
