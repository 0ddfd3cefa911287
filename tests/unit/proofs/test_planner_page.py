"""The page of the planner's proof says of each target what was measured, and counts those that are missed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.replay.calibration import Outcome, Outcomes
from agent.replay.course import Budget
from agent.replay.made_with import MadeWith
from agent.replay.replay import Asked, replay
from agent.replay.table import Table
from tests.proofs.counting import Share, less
from tests.proofs.planner_calibration import WHOLE_TRIALS, answer, reasons_of_predictions, together
from tests.proofs.planner_page import (
    COST,
    TRIALS,
    Made,
    Part,
    Turned,
    answers_of,
    most_missed,
    page,
    reasons_of,
)
from tests.proofs.planner_tables import HELD_OUT, KERNELS, TABLES
from tests.unit.agent.replay.synthetic import table

ROOT = Path(__file__).parents[3]

CODE = MadeWith("0.1", "0123456789abcdef", True, "3.12.1", {"Optuna": "5.0", "SMAC3": None}, "A processor", 2)


@pytest.fixture
def made_up(tmp_path: Path) -> Table:
    return table(tmp_path)


def part_of(made_up: Table, planners: tuple[str, ...] = ("ours", "tpe", "random")) -> Part:
    def asked(planners: tuple[str, ...], permute: tuple[str, ...] = ()) -> Asked:
        return Asked(planners, 2, Budget(8), permute)

    turned = Turned(KERNELS, True, replay(made_up, asked(("ours",), ("serving.kernel",))))
    whole = replay(made_up, Asked(("ours",), 2, Budget(WHOLE_TRIALS)))
    return Part("made-up", "made-up.csv", "", replay(made_up, asked(planners)), (turned,), whole)


def test_the_page_counts_what_it_marks_as_missed(made_up: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.proofs.planner_page.ABOUT", {"made-up.csv": "Made up."})
    part = part_of(made_up)
    found = page([part], Made("command", 2, 8, 2, 1, 1.0, ("picture.svg",), CODE))
    answers = answers_of(part)
    assert {TRIALS, COST, "regret after 3", "regret after 5", "turned: kernels"} == set(answers)
    words, held = answer(together({part.name: part.outcomes}))
    assert not held, "seven rows are fewer than are wanted"
    missed = sum(not each.met for each in answers.values()) + 1
    assert f"**{missed} of {len(answers) + 1} answers below miss their target.**" in found
    assert "14 outcomes of 7 rows (250 wanted, **missed**)" in words
    assert "turned labels of corpora" in found, "what can't be answered is said"
    assert "- cost beside smac of `made-up`: smac was not run" in found
    assert ", smac not run" in str(answers[COST])
    assert (
        "- Made with autoinfer 0.1 (commit 0123456789ab, with changes that are not committed), Optuna 5.0, "
        "SMAC3 not installed, Python 3.12.1, A processor (2 cores)" in found
    )
    assert "7 of the 7 rows that run were tried" in " ".join(found.split())
    assert "replayed once, afterwards" in " ".join(found.split())
    held = page([part], Made("command", 2, 8, 2, 1, 1.0, ("picture.svg",), CODE, held_out=True))
    assert held.startswith("# What the planner is worth on the table that was held out\n")
    assert "was replayed once, when nothing was left to be changed" in " ".join(held.split())


def test_each_target_that_is_missed_has_a_reason(made_up: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """With targets that nobody can meet all are missed, and each is told of."""
    part = part_of(made_up)
    monkeypatch.setattr("tests.proofs.planner_page.MOST_TRIALS", 0)
    monkeypatch.setattr("tests.proofs.planner_page.MOST_COST", 0.0)
    reasons = list(reasons_of(part))
    missed = [name for name, each in answers_of(part).items() if not each.met]
    assert {TRIALS, COST} <= set(missed)
    assert all(any(each.startswith(f"`made-up`, {name}") for each in reasons) for name in missed)
    assert any("In 0 of them a row that has was tried" in each for each in reasons)
    told = list(reasons_of_predictions({part.name: part.outcomes}))
    assert told[0] == "predictions, outcomes: no more than 7 rows were tried and ran in what was replayed"


@pytest.mark.parametrize(
    ("sd", "why"), [(0.01, "surer than they should be"), (9.0, "more careful than they need to be")]
)
def test_predictions_that_are_too_sure_or_too_careful_are_called_that(sd: float, why: str) -> None:
    outcomes = {("a", str(k)): {0: Outcome(0.1, (0.0, sd), (0.0, 1.0))} for k in range(250)}
    told = list(reasons_of_predictions({"a": (outcomes, {})}))
    assert told[0].startswith(f"predictions, share inside: {why}, most on `a` (")


def test_where_a_target_is_missed_the_page_says_how_many_rows_the_samples_do_not_tell_from_the_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Samples that scatter by a third, of rows that differ by a tenth: the table itself can't tell."""
    told = ("red,10 14 6", "blue,9 13 5", "green,9.1 5.1 13.1")
    part = part_of(table(tmp_path, None, *(f"none,,{each},1,yes,0,60" for each in told)))
    monkeypatch.setattr("tests.proofs.planner_page.MOST_TRIALS", 0)
    assert "the best row is not told from 1 of 1 others" in " ".join(reasons_of(part))


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
    assert {frozen.file for frozen in HELD_OUT} == {"h200-4b.csv"}
    assert len({frozen.name for frozen in TABLES}) == len(TABLES)


@given(st.integers(0, 50), st.integers(0, 50))
@settings(max_examples=40, deadline=None)
def test_an_interval_of_a_difference_of_shares_holds_it_and_turns_with_its_sign(one: int, other: int) -> None:
    low, high = less(Share(one, 50), Share(other, 50))
    assert -1 <= low < (one - other) / 50 < high <= 1 or abs(one - other) == 50
    assert less(Share(other, 50), Share(one, 50)) == pytest.approx((-high, -low))


@pytest.mark.parametrize(("unturned", "most"), [(50, 45), (40, 31), (30, 20), (20, 10), (2, None)])
def test_how_few_are_a_miss_with_turned_labels_is_known_before_and_documented(
    unturned: int, most: int | None
) -> None:
    assert most_missed(Share(unturned, 50)) == most
    assert most is None or f"| {unturned} | up to {most} |" in (ROOT / "docs" / "replay.md").read_text(
        encoding="utf-8"
    )


def test_shares_of_56_of_70_and_48_of_80_differ_as_newcombe_tells() -> None:
    """His table II, (a), method 10: 0.0524 to 0.3339."""
    assert less(Share(56, 70), Share(48, 80)) == pytest.approx((0.0524, 0.3339), abs=5e-5)
