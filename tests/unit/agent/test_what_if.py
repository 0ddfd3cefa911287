"""What would follow from a verdict: the same ranking, with the outcome assumed."""

from __future__ import annotations

from dataclasses import replace

from agent.campaign.what_if import what_if
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


def test_where_order_does_not_change_nothing_is_told_and_what_does_not_wait_has_no_consequence() -> None:
    alone = desk(queued(1, COMPILED), queued(2, replace(HALF)))
    assert all(each.moved == 0 for each in what_if(alone, 1))
    assert what_if(alone, 9) == ()
