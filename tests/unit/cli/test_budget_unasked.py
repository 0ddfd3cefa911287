"""A packaged budget that reaches no verdict is raised, but not to more than a day that nobody asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.plan.card import Card
from agent.plan.duration import Duration
from agent.plan.model import find_model
from agent.plan.plan import Plan, make_plan
from cli.run import raised
from configs.campaign import load_campaign
from configs.errors import UsageError

HOUR_S = 3600.0
SPEC = load_campaign("default")


def plan_of(test_s: float) -> Plan:
    """A plan by which a test lasts so long."""
    made = make_plan(SPEC, find_model("reference"), Card("a processor", 16 * 10**9, is_gpu=False), cores=2)
    return replace(made, first_verdict=Duration(0.0, test_s, test_s, ()), raises_budget=True)


def test_up_to_a_day_is_taken_and_said() -> None:
    spec, told = raised(SPEC, plan_of(4 * HOUR_S))
    assert spec.budget.wall_s == 24 * HOUR_S
    assert "so a campaign takes 1 d" in str(told)


def test_more_than_a_day_is_refused_with_what_asks_for_it() -> None:
    with pytest.raises(
        UsageError, match="more than the 1 d that a campaign takes unasked: --budget 93h asks"
    ):
        raised(SPEC, plan_of(15.4 * HOUR_S))
