"""What `autoinfer run` tells of its plan before it begins."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.plan.card import card_asked
from agent.plan.levers import LeverRow, Standing
from agent.plan.model import find_model
from agent.plan.plan import Plan, make_plan
from cli.running.asked import campaign_asked
from cli.sheets.plan import print_cards, print_start


@pytest.fixture(scope="module")
def plan() -> Plan:
    spec = campaign_asked("default", {"target": "cuda:0", "model": "qwen3.5-9b"}).spec
    return make_plan(spec, find_model("qwen3.5-9b"), card_asked("l40s"))


def test_levers_that_are_not_legal_are_told_with_their_reasons(
    plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    print_start(plan)
    told = " ".join(capsys.readouterr().out.split())
    assert "values are legal here, " in told
    assert "; the others, and why:" in told
    assert "not legal:" not in told, "of the others some are, when given or beside another value"
    assert "not offered by itself, and why" in told
    assert "Machete is built for compute capability" in told


@pytest.mark.parametrize(
    ("values", "told", "untold"),
    [
        ((3, 4, 5), "3, 4, 5; of 3: It needs 13.5 GB, and 12.0 GB may be taken.", "14.5"),
        ((3, 4), "4: It needs 14.5 GB, and 12.0 GB may be taken.", "; of 3"),
    ],
)
def test_reasons_that_differ_by_figures_alone_are_told_as_one_where_they_are_many(
    values: tuple[int, ...], told: str, untold: str, plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    def row(tokens: int, why: str) -> LeverRow:
        return LeverRow("drafting.draft_tokens", "draft", tokens, Standing.NO, why)

    rows = [row(each, f"It needs 1{each}.5 GB, and 12.0 GB may be taken.") for each in values]
    print_start(replace(plan, levers=(*rows, row(9, "It is too many."))))
    found = " ".join(capsys.readouterr().out.split())
    assert told in found
    assert "9: It is too many." in found
    assert untold not in found


def test_reasons_that_differ_by_the_value_that_they_name_are_told_as_one(
    plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    backend = "serving.linear_backend"
    rows = [
        LeverRow(backend, "serving", each, Standing.NO, f"No kernel goes by {backend}={each}; take auto.")
        for each in ("conch", "marlin", "triton")
    ]
    print_start(replace(plan, levers=tuple(rows)))
    found = " ".join(capsys.readouterr().out.split())
    assert f"conch, marlin, triton; of conch: No kernel goes by {backend}=conch; take auto." in found
    assert "=marlin" not in found


def test_where_all_are_legal_no_empty_table_follows(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    legal = tuple(row for row in plan.levers if row.standing is Standing.YES)
    print_start(replace(plan, levers=legal))
    told = " ".join(capsys.readouterr().out.split())
    assert f"levers: {len(legal)} of {len(legal)} values are legal here." in told
    assert "not legal" not in told
    assert "and why" not in told


def test_of_cards_with_as_much_memory_the_one_that_differs_has_a_row_with_its_name(
    plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    """No real card has made it differ yet: here one is made to need more with the default."""
    same, other = (replace(plan, card=replace(plan.card, name=name)) for name in ("Same", "Other"))
    other = replace(other, start=replace(other.start, default_bytes=2 * plan.start.default_bytes))
    print_cards([plan, other, same])
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("48")]
    default = f"{plan.start.default_bytes / 1e9:.1f}"
    assert [row[0] for row in rows] == ["48", "48:"]
    assert rows[0][2] == default
    assert rows[1][1] == "Other"
    assert rows[1][3] != default
