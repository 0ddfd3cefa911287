"""Sparklines: values in, polylines out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dashboard.charts.sparkline import HEIGHT, MARGIN, WIDTH, polylines

VALUES = st.lists(st.none() | st.floats(-1e6, 1e6), max_size=80)


def points(line: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, _, y in (each.partition(",") for each in line.split())]


def test_the_lowest_lies_at_the_bottom_and_the_highest_at_the_top() -> None:
    assert polylines((0.0, 50.0, 100.0), 0, 100) == ("0.0,28.0 50.0,15.0 100.0,2.0",)


def test_a_gap_parts_the_curve_and_a_lonely_value_can_be_seen() -> None:
    first, lonely = polylines((0.0, 0.0, None, 100.0, None), 0, 100)
    assert first == "0.0,28.0 25.0,28.0"
    assert lonely == "62.5,2.0 87.5,2.0"


def test_nothing_reported_is_no_curve_and_a_scale_without_room_is_flat() -> None:
    assert polylines((None, None), 0, 1) == polylines((), 0, 1) == ()
    assert polylines((3.0, 4.0), 5, 5) == ("0.0,28.0 100.0,28.0",)


@given(VALUES, st.floats(-1e3, 1e3), st.floats(-1e3, 1e3))
def test_nothing_is_drawn_outside_its_box(values: list[float | None], low: float, high: float) -> None:
    lines = polylines(values, low, high)
    for line in lines:
        drawn = points(line)
        assert len(drawn) > 1
        assert all(0 <= x <= WIDTH and MARGIN <= y <= HEIGHT - MARGIN for x, y in drawn)
    assert bool(lines) == any(value is not None for value in values)
