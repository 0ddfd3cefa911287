"""Predicted against measured: places on the axes, what lies inside, ticks that don't collide."""

from __future__ import annotations

from itertools import pairwise

import pytest

from dashboard.charts.predicted_measured import LEAST_GAP, predicted_measured
from db.states import VerdictOutcome
from knowledge.queries.claims.predictions import PredictedPoint
from knowledge.queries.view import EffectView


def point(predicted: float, measured: float, reach: float = 0.05, number: int = 1) -> PredictedPoint:
    return PredictedPoint(
        hypothesis=f"H-{number:03d}",
        claim="It is faster.",
        experiment="E-0001",
        outcome=VerdictOutcome.SUPPORTED,
        predicted=EffectView(relative=predicted, low=predicted - reach, high=predicted + reach),
        measured=EffectView(relative=measured, low=measured - 0.01, high=measured + 0.01),
        latency_only=False,
    )


def test_there_is_no_chart_of_nothing() -> None:
    assert predicted_measured([]) is None


def test_what_came_out_as_predicted_lies_on_the_diagonal() -> None:
    chart = predicted_measured([point(-0.4, -0.4), point(0.1, 0.1), point(-0.2, -0.05)])
    assert chart is not None
    last, right, left = chart.marks  # the oldest first
    assert left.x == pytest.approx(100 - left.y)
    assert right.x == pytest.approx(100 - right.y)
    assert 100 - last.y > last.x  # slower than predicted lies above
    assert left.x < right.x


def test_bars_enclose_their_point_and_end_at_the_frame() -> None:
    chart = predicted_measured([point(-0.4, -0.4, reach=0.59), point(0.0, 0.1)])
    assert chart is not None
    for mark in chart.marks:
        assert 0 <= mark.x_low <= mark.x <= mark.x_high <= 100
        assert mark.y_high <= mark.y <= mark.y_low  # downwards


def test_a_change_of_nearly_everything_has_a_place() -> None:
    chart = predicted_measured([point(-0.9999, -0.76, reach=0.5)])
    assert chart is not None
    assert 0 <= chart.marks[0].x <= 100


def test_inside_is_the_measured_effect_within_the_predicted_interval() -> None:
    assert point(-0.4, -0.44).inside
    assert not point(-0.4, -0.46).inside


@pytest.mark.parametrize("reach", [0.01, 0.3, 3.0, 9.0])
def test_ticks_have_room_and_lie_on_the_axis(reach: float) -> None:
    chart = predicted_measured([point(-0.9, 0.0), point(0.0, reach)])
    assert chart is not None
    places = [tick.place for tick in chart.ticks]
    assert places == sorted(places)
    assert all(later - earlier >= LEAST_GAP for earlier, later in pairwise(places))
    assert "0" in [tick.label for tick in chart.ticks]
