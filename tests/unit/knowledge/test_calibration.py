"""How often predictions held, and what is made of that."""

from pathlib import Path
from typing import Literal

import pytest
from scipy.stats import binomtest

from knowledge.queries.claims.calibration import CalibrationView, calibration, chance, score_interval
from tests.recorded.levers_on_four import levers_on_four

PAGE = Path(__file__).parents[3] / "docs" / "results" / "h200-levers-four.md"


def view(inside: int, total: int) -> CalibrationView:
    low, high = score_interval(inside, total)
    return CalibrationView(total=total, inside=inside, low=low, high=high)


@pytest.mark.parametrize(
    ("inside", "total", "said"),
    [
        (0, 1, "So few outcomes do not tell whether the predictions are surer than they should be."),
        (0, 2, "So few outcomes do not tell"),
        (0, 3, "The predictions are surer than they should be."),
        (1, 10, "The predictions are surer than they should be."),
        (6, 10, "does not speak against"),
        (10, 10, "does not speak against"),
        (60, 60, "more careful than they need to be"),
        (40, 100, "surer than they should be"),
    ],
)
def test_predictions_are_blamed_only_for_what_chance_does_not_explain(
    inside: int, total: int, said: str
) -> None:
    assert said in view(inside, total).meaning


def test_how_likely_right_predictions_are_to_miss_as_often_is_exact() -> None:
    assert chance(0, 1) == pytest.approx(0.2)
    assert chance(1, 4) == pytest.approx(0.2**4 + 4 * 0.8 * 0.2**3)
    assert chance(10, 10) == pytest.approx(0.8**10)
    assert chance(8, 10) == pytest.approx(0.8**8 * 0.2**2 * 45 + 0.8**9 * 0.2 * 10 + 0.8**10)


@pytest.mark.parametrize(
    ("inside", "total"), [(0, 0), (0, 7), (399, 500), (400, 500), (1550, 2000), (2000, 2000)]
)
def test_it_is_a_tail_of_the_binomial_distribution_however_many_outcomes_there_are(
    inside: int, total: int
) -> None:
    tail: Literal["less", "greater"] = "less" if inside < 0.8 * total else "greater"
    known = binomtest(inside, total, 0.8, tail).pvalue if total else 1.0
    assert chance(inside, total) == pytest.approx(known)


def test_before_any_outcome_nothing_is_claimed() -> None:
    assert view(0, 0).sentence.startswith("No prediction was tested yet.")


@pytest.mark.parametrize(("count", "of"), [(0, 1), (1, 1), (8, 10), (250, 250), (199, 250)])
def test_the_interval_holds_the_share_and_stays_one(count: int, of: int) -> None:
    low, high = score_interval(count, of)
    assert 0 <= low <= count / of <= high <= 1


def test_the_interval_is_the_one_of_wilsons_paper() -> None:
    assert score_interval(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)
    """Of Newcombe's table (Statistics in Medicine 17, 1998, p. 857), method 3."""


def test_pages_count_the_outcomes_that_a_summary_counts_those_in_points_too(tmp_path: Path) -> None:
    database = levers_on_four(tmp_path)
    with database.read() as session:
        found = calibration(session, 1)
    database.close()
    assert f"Surprises: {found.sentence}" in PAGE.read_text(encoding="utf-8")
