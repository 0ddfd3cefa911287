"""Several devices at once: a free one does not spend its time on a gain that another is measuring."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.campaign.decision.desk import Desk
from tests.unit.agent.test_desk import BASELINE, COMPILED, PRUNED, SPACE, desk, queued

OTHERWISE_COMPILED = SPACE.with_change(BASELINE, {"serving.compile": "default"})
BOTH = SPACE.with_change(COMPILED, {"pruning.method": "depth"})


def beside(target: str = "cuda:0,cuda:1") -> Desk:
    """H-001 compiles and flies; its alternative, a pruning and both together wait."""
    found = desk(queued(2, OTHERWISE_COMPILED), queued(3, PRUNED), queued(4, BOTH))
    spec = found.facts.spec.model_copy(update={"target": target})
    flying = ((BASELINE, COMPILED),)
    return replace(found, facts=replace(found.facts, spec=spec, flying=flying, flying_ids=(1,)))


def test_what_changes_the_lever_under_test_is_counted_on_top_of_it() -> None:
    alone = {p.hypothesis_id: p for p in beside("cuda:0").ranking.places}
    with_two = {p.hypothesis_id: p for p in beside().ranking.places}
    belief = beside().beliefs.predict(BASELINE, COMPILED).log_ratio_mean
    assert belief < -0.05
    assert with_two[2].gain < alone[2].gain
    assert with_two[4].gain < alone[4].gain
    assert "counted on top of H-001, under test on the same lever, for" in with_two[2].reason


def test_what_changes_another_lever_adds_to_it_and_keeps_its_worth() -> None:
    alone = {p.hypothesis_id: p for p in beside("cuda:0").ranking.places}
    with_two = {p.hypothesis_id: p for p in beside().ranking.places}
    assert with_two[3].gain == alone[3].gain
    assert "counted on top of" not in with_two[3].reason


def test_one_device_counts_nothing_on_top_of_anything() -> None:
    assert all("counted on top of" not in each.reason for each in beside("cuda:0").ranking.places)


def test_where_the_test_is_expected_to_lose_nothing_is_counted_on_it() -> None:
    found = beside()
    slower = replace(found, facts=replace(found.facts, flying=((COMPILED, BASELINE),)))
    assert all("counted on top of" not in each.reason for each in slower.ranking.places)


@pytest.mark.parametrize("target", ["cuda:0", "cuda:0,cuda:1"])
def test_the_order_is_the_same_every_time(target: str) -> None:
    assert beside(target).ranking == beside(target).ranking
