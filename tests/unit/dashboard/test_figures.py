"""Figures as they stand on a page: a true minus, a narrow space before the unit, digits that count."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from configs.quantities import format_duration
from dashboard.rendering import figures
from dashboard.rendering.figures import (
    age,
    effect,
    ends,
    exact,
    interval,
    percent,
    seconds,
    unit,
    until,
)
from dashboard.rendering.linking import together
from dashboard.report.words import milliseconds, speedup
from knowledge.figures import between, number, signed
from knowledge.queries.view import EffectView


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (15.93, "15.9"),
        (0.01234, "0.0123"),
        (1234.5, "1,234"),
        (0, "0"),
        (-3.14159, "−3.14"),
        (-1.6e-7, "−1.60 × 10⁻⁷"),
        (float("nan"), "–"),
    ],
)
def test_a_number_has_three_digits_that_count(value: float, text: str) -> None:
    assert number(value) == text


def test_an_interval_above_a_thousand_reads_as_two_numbers() -> None:
    assert between(1_234.5, 12_300) == "[1,234; 12,300]"
    assert between(15.21, 1_005) == "[15.2; 1,005]"
    assert between(15.21, 16.4) == "[15.2, 16.4]"
    assert between(1_980, 2_619, 4) == "[1,980; 2,619]"
    assert speedup(1_250.0, 1_200.0, 1_300.0).endswith("[1,200; 1,300]")
    assert milliseconds(1_250.0, 1_200.0, 1_300.0).endswith("[1,200; 1,300]")
    assert together("<b>[1,200; 1,300]</b>") == "<b>[1,200;\u00a01,300]</b>"
    assert together("<b>[15.2, 16.4]</b>") == "<b>[15.2,\u00a016.4]</b>"


def test_no_page_or_report_writes_thousands_into_an_interval_by_itself() -> None:
    written = re.compile(r"\[\{\{[^}]*\|(number|whole|reading)[^}]*\}\}, |\[\{(number|whole|reading)\(")
    rooms = Path(figures.__file__).parents[1]
    texts = [*rooms.rglob("*.html"), *rooms.rglob("*.py")]
    assert [each.name for each in texts if written.search(each.read_text("utf-8"))] == []


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.05, "0.05"), (1.0, "1"), (2048, "2048"), (100.0, "100"), (1.6e-7, "1.600 × 10⁻⁷"), (0.9, "0.9")],
)
def test_a_number_that_was_set_has_no_idle_zeros(value: float, text: str) -> None:
    assert exact(value) == text


@pytest.mark.parametrize(("value", "text"), [(12.04, "+12.0"), (-0.04, "0.0"), (-1.5, "−1.5"), (0.0, "0.0")])
def test_a_change_has_its_sign_unless_it_rounds_to_nothing(value: float, text: str) -> None:
    assert signed(value) == text


def test_an_effect_has_its_unit_and_its_interval() -> None:
    found = EffectView(relative=-0.824, low=-0.864, high=-0.761)
    assert effect(found) == "−82.4\u202f%"
    assert interval(found.low, found.high) == "[−86.4, −76.1]"
    more = EffectView(relative=-0.056, low=-0.082, high=-0.03, metric="task_correct")
    assert (effect(more), ends(more)) == ("+5.6\u202fpoints", "[+3.0, +8.2]"), "as the verdict says it"
    assert (ends(found), ends(None), ends(EffectView(relative=-0.1))) == ("[−86.4, −76.1]", "", "")
    assert (effect(None), interval(None, 0.1), percent(0.014), unit(None, "ms")) == (
        "–",
        "",
        "+1.4\u202f%",
        "–",
    )


def test_a_duration_is_told_as_in_sentences_with_narrow_spaces_before_its_units() -> None:
    assert seconds(190) == "3\u202fmin 10\u202fs"
    assert seconds(190).replace("\u202f", " ") == format_duration(190)
    assert (seconds(None), age(8.4)) == ("–", "8\u202fs")
    assert together("<b>3 min 10 s of 1 h, 2 d 3 h</b>") == (
        "<b>3\u202fmin 10\u202fs of 1\u202fh, 2\u202fd 3\u202fh</b>"
    )


def test_an_end_says_its_day_where_it_is_another_than_that_of_the_beginning() -> None:
    began = datetime(2026, 11, 7, 23, 50, 31).astimezone()
    assert until(began + timedelta(minutes=9), began) == "23:59:31"
    assert until(began + timedelta(minutes=12), began) == "2026-11-08 00:02:31"
