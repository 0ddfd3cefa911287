import pytest

from dashboard.charts.forest import LEAST_PX, MOST_PX, Effect, forest_chart


def test_all_rows_share_an_axis_that_holds_every_interval_and_zero() -> None:
    campaigns = [Effect(-10, -12, -8, 0.75), Effect(-5, -9, -1, 0.25)]
    chart = forest_chart(campaigns, Effect(-8, -13, -3), Effect(-8, -20, 4), worth=-3)
    spans = [*chart.rows, chart.together, chart.predicted]
    for span in spans:
        assert span is not None
        assert 0 <= span.low <= span.middle <= span.high <= 100
    assert chart.worth is not None
    assert chart.rows[0].middle < chart.rows[1].middle < chart.worth < chart.zero < 100


def test_the_square_grows_with_the_weight() -> None:
    heavy, light = forest_chart([Effect(-10, -12, -8, 1.0), Effect(-5, -9, -1, 0.0)], None, None, None).rows
    assert (heavy.side_px, light.side_px) == (MOST_PX, LEAST_PX)


def test_the_middle_of_a_diamond_lies_where_the_pooled_effect_does() -> None:
    chart = forest_chart([Effect(-10, -20, 0)], Effect(-5, -20, 0), None, None)
    assert chart.together is not None
    assert chart.together.inner == pytest.approx(75)


def test_an_exact_effect_has_no_width_and_is_drawn_all_the_same() -> None:
    (row,) = forest_chart([Effect(-10, -10, -10)], None, None, None).rows
    assert (row.width, row.inner) == (0, 50)


def test_ticks_tell_their_sign_but_for_zero() -> None:
    labels = [tick.label for tick in forest_chart([Effect(0, -10, 10)], None, None, None).ticks]
    assert labels == ["\u221210", "\u22125", "0", "+5", "+10"]
