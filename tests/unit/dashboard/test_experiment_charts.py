"""Geometry of an experiment's charts: ticks, distributions, the course of its interval."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.charts.axis import Axis, axis_of
from dashboard.charts.cdf import LABEL_LINE_PX, cdf
from dashboard.charts.course import PairMark, course_chart


def steps(*values: float) -> list[tuple[float, float]]:
    return [(value, (number + 1) / len(values)) for number, value in enumerate(sorted(values))]


@pytest.mark.parametrize(
    ("axis", "labels"),
    [
        (Axis(0, 10), ["0", "2", "4", "6", "8", "10"]),
        (Axis(3.52, 3.74), ["3.55", "3.60", "3.65", "3.70"]),
        (Axis(-4, 6), ["−4", "−2", "0", "2", "4", "6"]),
        (Axis(0, 0.1), ["0.00", "0.02", "0.04", "0.06", "0.08", "0.10"]),
        (Axis(0, 12_000), ["0", "2,500", "5,000", "7,500", "10,000"]),
    ],
)
def test_ticks_are_round_numbers_within_the_range(axis: Axis, labels: list[str]) -> None:
    assert [each.label for each in axis.ticks()] == labels


@given(st.lists(st.floats(-1e9, 1e9), min_size=1))
def test_an_axis_holds_all_values_and_has_ticks(values: list[float]) -> None:
    axis = axis_of(values)
    assert all(-1e-6 <= axis.place(each) <= 100 + 1e-6 for each in values)
    ticks = axis.ticks()
    assert len(ticks) <= 11
    assert all(-1e-3 <= each.place <= 100 + 1e-3 for each in ticks)


def test_curves_rise_from_nothing_to_all_at_their_values() -> None:
    found = cdf(steps(1, 2, 3), steps(4, 5, 6))
    assert found.candidate is not None
    assert found.control.path.startswith("M0 1000L")
    assert found.control.path.endswith("L1000 0.0")
    assert found.control.median < found.candidate.median
    assert found.control.path.count("L") == 2 * 3 + 1


def test_labels_stand_outside_where_there_is_room_and_inside_where_not() -> None:
    apart = cdf(steps(1, 2, 3), steps(100, 101, 102))
    assert apart.candidate is not None
    assert (apart.control.anchor, apart.candidate.anchor) == ("start", "end")
    near = cdf(steps(*range(100)), steps(*range(1, 101)))
    assert near.candidate is not None
    assert (near.control.anchor, near.candidate.anchor) == ("end", "start")
    turned = cdf(steps(*range(1, 101)), steps(*range(100)))
    assert turned.candidate is not None
    assert (turned.control.anchor, turned.candidate.anchor) == ("start", "end")


@pytest.mark.parametrize("mirrored", [False, True])
def test_labels_on_one_side_of_the_curves_do_not_stand_on_each_other(mirrored: bool) -> None:
    skewed = [n / 60 for n in range(60)] + [1 + n / 5 for n in range(40)]
    both = [steps(*(-each - by if mirrored else each + by for each in skewed)) for by in (0.0, 0.1)]
    found = cdf(both[0], both[1])
    assert found.candidate is not None
    assert {found.control.anchor, found.candidate.anchor} == {"end" if mirrored else "start"}
    assert abs(found.control.rise - found.candidate.rise) >= 2 * LABEL_LINE_PX, "each has two lines"


def test_one_outlier_does_not_flatten_the_curves() -> None:
    values = [10 + number / 100 for number in range(200)]
    with_it, without = cdf(steps(*values, 10_000), None), cdf(steps(*values), None)
    assert [each.label for each in with_it.ticks] == [each.label for each in without.ticks]


def test_one_arm_or_one_value_is_drawn_too() -> None:
    assert cdf(steps(5), None).candidate is None
    assert math.isfinite(cdf(steps(5), steps(5)).control.median)


def mark(number: int, effect: float, low: float | None, high: float | None, **more: bool) -> PairMark:
    return PairMark(number, effect, more.get("validation", False), effect, low, high)


def test_the_course_ends_where_the_pairs_end_and_tells_what_was_not_run() -> None:
    found = course_chart(
        [mark(1, -10, None, None), mark(2, -12, -20, -4), mark(3, -11, -14, -8, validation=True)], 6, -3
    )
    assert (found.ran, found.not_run) == (50.0, 3)
    assert found.validates == pytest.approx(33.333)
    assert [each.label for each in found.x_ticks] == ["1", "2", "3", "4", "5", "6"]
    assert found.band.count("L") == 3
    assert found.zero < found.worth < found.end
    assert "+0" not in [each.label for each in found.y_ticks]


def test_a_course_without_an_interval_has_no_band() -> None:
    found = course_chart([mark(1, 2, None, None)], 0, -3)
    assert (found.band, found.low_line, found.ran, found.not_run) == ("", "", 100.0, 0)
