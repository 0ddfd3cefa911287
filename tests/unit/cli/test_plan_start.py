"""What `autoinfer run` tells of its plan before it begins."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.plan.card import card_asked
from agent.plan.levers import Standing
from agent.plan.model import find_model
from agent.plan.plan import Plan, make_plan
from cli.asked import campaign_asked
from cli.sheets.plan import print_start


@pytest.fixture(scope="module")
def plan() -> Plan:
    spec = campaign_asked("default", {"target": "cuda:0", "model": "qwen3.5-9b"}).spec
    return make_plan(spec, find_model("qwen3.5-9b"), card_asked("l40s"))


def test_levers_that_are_not_legal_are_told_with_their_reasons(
    plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    print_start(plan)
    told = " ".join(capsys.readouterr().out.split())
    assert "are legal here; not legal:" in told
    assert "Machete is built for compute capability" in told


def test_where_all_are_legal_no_empty_table_follows(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    legal = tuple(row for row in plan.levers if row.standing is Standing.YES)
    print_start(replace(plan, levers=legal))
    told = " ".join(capsys.readouterr().out.split())
    assert f"levers: {len(legal)} of {len(legal)} values are legal here." in told
    assert "not legal" not in told
    assert "not here, and why" not in told
