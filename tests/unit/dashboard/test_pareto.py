"""The Pareto chart: all lies within the plot, what is beyond the scale is told, labels do not collide."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.charts.pareto import Plot, Spot, pareto_plot
from dashboard.pages.pareto import short_name
from knowledge.queries.pareto import FrontRow
from knowledge.queries.view import ChangeView


def plot(spots: Sequence[Spot], limit: float | None = 0.01, floor_ms: float | None = 1.0) -> Plot:
    found = pareto_plot(spots, limit=limit, floor_ms=floor_ms, limit_label="limit", floor_label="floor")
    assert found is not None
    return found


BASELINE = Spot(10.0, 0.0, "baseline", None, label="baseline", is_baseline=True, is_front=True)


@given(
    st.lists(st.tuples(st.floats(0.01, 1e6), st.floats(-0.5, 5.0)), min_size=1, max_size=20),
    st.one_of(st.none(), st.floats(0.001, 0.5)),
    st.one_of(st.none(), st.floats(0.001, 5.0)),
)
def test_every_mark_lies_within_the_plot(
    places: list[tuple[float, float]], limit: float | None, floor_ms: float | None
) -> None:
    spots = [BASELINE, *(Spot(x, y, "one", "/experiments/E-0001", label="a name") for x, y in places)]
    found = plot(spots, limit, floor_ms)
    assert len(found.marks) == len(spots)
    assert all(0 <= mark.x <= 100 and 0 <= mark.y <= 100 for mark in found.marks)
    assert all(0 <= tick.place <= 100 for tick in (*found.x_ticks, *found.y_ticks))
    assert len(found.x_ticks) >= 2
    if found.limit:
        assert 0 < found.limit.place < 100


def test_what_is_beyond_the_scale_is_hollow_on_its_edge_and_says_so() -> None:
    found = plot([BASELINE, Spot(5.0, 0.85, "two layers less", "/experiments/E-0002")])
    (out,) = [mark for mark in found.marks if mark.shade == "pt-out"]
    assert out.y == 0
    assert out.title == "two layers less, beyond the scale"


def test_faster_is_left_and_less_loss_is_down() -> None:
    fast = Spot(5.0, 0.005, "fast", None, is_best=True, is_front=True)
    found = {mark.shade: mark for mark in plot([fast, BASELINE]).marks}
    assert found["pt-best"].x < found["pt-base"].x
    assert found["pt-best"].y < found["pt-base"].y


def test_the_front_goes_in_steps_and_ends_at_the_right_edge() -> None:
    spots = [Spot(5.0, 0.005, "fast", None, is_front=True), BASELINE]
    path = plot(spots).path
    assert path.startswith("M")
    assert path.count("L") == 4
    assert path.rpartition("L")[2].startswith("1000 ")


def test_of_two_labels_in_one_place_the_best_keeps_its_own() -> None:
    near = Spot(5.05, 0.0, "near", None, label="near", is_front=True)
    best = Spot(5.0, 0.0, "best", None, label="best", is_best=True, is_front=True)
    labels = [mark.label for mark in plot([best, near, BASELINE]).marks]
    assert "best" in labels
    assert "near" not in labels


@pytest.mark.parametrize(("floor_ms", "low"), [(2.9, True), (1.0, False)])
def test_the_floor_is_not_named_across_the_front_that_falls_beside_it(floor_ms: float, low: bool) -> None:
    fastest = Spot(3.0, 0.0, "best", None, is_best=True, is_front=True)
    floor = plot([fastest, BASELINE], floor_ms=floor_ms).floor
    assert floor is not None
    assert floor.low is low


def test_nothing_gives_no_plot() -> None:
    assert pareto_plot([], limit=None, floor_ms=None, limit_label="", floor_label="") is None


def test_a_configuration_is_named_by_what_it_changes() -> None:
    changes = (
        ChangeView(knob="drafting.draft_tokens", before=None, after=2),
        ChangeView(knob="drafting.method", before="none", after="mtp"),
        ChangeView(knob="pruning.method", before="depth", after="none"),
    )
    row = FrontRow(
        experiment="E-0001",
        claim=None,
        change=changes,
        outcome=None,
        latency_ms=1.0,
        low_ms=None,
        high_ms=None,
        quality=0.0,
        quality_low=None,
        quality_high=None,
        within_limit=True,
        is_baseline=False,
        is_best=False,
    )
    assert short_name(row) == "draft_tokens 2, mtp, no pruning"
