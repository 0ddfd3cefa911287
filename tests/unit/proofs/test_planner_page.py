"""The page of the planner's proof says of each target what was measured, and counts those that are missed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.replay.calibration import Outcomes
from agent.replay.course import Budget
from agent.replay.replay import Asked, replay
from agent.replay.table import Table
from tests.proofs.counting import Share, less
from tests.proofs.planner_calibration import answer, together
from tests.proofs.planner_page import COST, TRIALS, Made, Part, Turned, answers_of, page
from tests.proofs.planner_tables import KERNELS, TABLES
from tests.unit.agent.replay.synthetic import table


@pytest.fixture
def made_up(tmp_path: Path) -> Table:
    return table(tmp_path)


def part_of(made_up: Table, planners: tuple[str, ...] = ("ours", "tpe", "random")) -> Part:
    def asked(planners: tuple[str, ...], permute: tuple[str, ...] = ()) -> Asked:
        return Asked(planners, 2, Budget(8), permute)

    turned = Turned(KERNELS, True, replay(made_up, asked(("ours",), ("serving.kernel",))))
    whole = replay(made_up, asked(("ours",)))
    return Part("made-up", "made-up.csv", "", replay(made_up, asked(planners)), (turned,), whole)


def test_the_page_counts_what_it_marks_as_missed(made_up: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.proofs.planner_page.ABOUT", {"made-up.csv": "Made up."})
    part = part_of(made_up)
    found = page([part], Made("command", 2, 8, 2, 1, 1.0, ("picture.svg",)))
    answers = answers_of(part)
    assert {TRIALS, COST, "regret after 3", "regret after 5", "turned: kernels"} == set(answers)
    words, held = answer(together({part.name: part.outcomes}))
    assert not held, "seven rows are fewer than are wanted"
    missed = sum(not each.met for each in answers.values()) + 1
    assert f"**{missed} of {len(answers) + 1} answers below miss their target.**" in found
    assert "14 outcomes of 7 rows (250 wanted, **missed**)" in words
    assert "turned labels of corpora" in found, "what can't be answered is said"


def test_rows_of_two_tables_are_not_taken_for_one(made_up: Table) -> None:
    part = part_of(made_up)
    whole, early = part.outcomes
    twice = together({"a": (whole, early), "b": (_renamed(whole), _renamed(early))})
    assert twice is not None
    assert (twice.rows, twice.configurations) == (14, 7)


def _renamed(outcomes: Outcomes) -> Outcomes:
    return {("other", digest): found for (_, digest), found in outcomes.items()}


def test_the_held_out_table_is_not_among_those_that_are_replayed() -> None:
    assert not any("4b" in frozen.file for frozen in TABLES)
    assert len({frozen.name for frozen in TABLES}) == len(TABLES)


@given(st.integers(0, 50), st.integers(0, 50))
@settings(max_examples=40, deadline=None)
def test_an_interval_of_a_difference_of_shares_holds_it_and_turns_with_its_sign(one: int, other: int) -> None:
    low, high = less(Share(one, 50), Share(other, 50))
    assert -1 <= low < (one - other) / 50 < high <= 1 or abs(one - other) == 50
    assert less(Share(other, 50), Share(one, 50)) == pytest.approx((-high, -low))


def test_shares_of_56_of_70_and_48_of_80_differ_as_newcombe_tells() -> None:
    """His table II, (a), method 10: 0.0524 to 0.3339."""
    assert less(Share(56, 70), Share(48, 80)) == pytest.approx((0.0524, 0.3339), abs=5e-5)
