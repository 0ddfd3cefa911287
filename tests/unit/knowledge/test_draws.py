"""Effects that rest on one draw of calibration text are read against other draws."""

from __future__ import annotations

import pytest

from db.states import VerdictOutcome
from knowledge.telling.draws import read_against_draws, rests_on_a_draw
from tests.unit.knowledge.contrasts import BLEND, RAW, another_draw, contrast

SUPPORTED = VerdictOutcome.SUPPORTED
AS_MEASURED = (0.022, -0.009, 0.054)
"""Second draw of raw text, C-1 of docs/results/levers.md: −2.2 points [−5.4, +0.9]."""


@pytest.mark.parametrize(
    ("interval", "beyond"),
    [
        ((-0.035, -0.058, -0.013), False),  # +3.5 points [+1.3, +5.8], the blend there
        ((-0.17, -0.20, -0.141), True),  # +17.0 points [+14.1, +20.0], groups of 32 there
        ((0.17, 0.141, 0.20), True),
        ((-0.06, -0.30, 0.20), False),
        ((-0.06, -0.07, -0.054), False),
    ],
)
def test_an_effect_is_beyond_a_draw_when_all_of_it_is_larger_than_anything_in_the_draws_interval(
    interval: tuple[float, float, float], beyond: bool
) -> None:
    reading = read_against_draws(contrast("blend", SUPPORTED, interval), [another_draw(AS_MEASURED)])
    assert reading is not None
    assert reading.beyond is beyond


def test_the_widest_of_several_draws_counts() -> None:
    draws = [another_draw((0.0, -0.01, 0.01)), another_draw((-0.05, -0.15, 0.0), "third_draw")]
    reading = read_against_draws(contrast("large", SUPPORTED, (-0.17, -0.2, -0.141)), draws)
    assert reading is not None
    assert reading.beyond is False
    assert reading.draws == tuple(draws)


def test_without_a_measured_draw_on_that_metric_it_is_not_known() -> None:
    others = [
        another_draw(None),
        another_draw(AS_MEASURED).model_copy(update={"metric": "nll_bits"}),
        contrast("no_draw", SUPPORTED, AS_MEASURED),
    ]
    reading = read_against_draws(contrast("blend", SUPPORTED, (-0.035, -0.058, -0.013)), others)
    assert reading is not None
    assert (reading.beyond, reading.draws) == (None, ())


def test_what_was_not_measured_and_a_draw_itself_are_read_against_nothing() -> None:
    draw = another_draw(AS_MEASURED)
    assert read_against_draws(contrast("open"), [draw]) is None
    assert read_against_draws(draw, [draw]) is None


@pytest.mark.parametrize(
    ("metric", "control", "candidate", "rests"),
    [
        ("task_correct", RAW, BLEND, True),
        ("nll_bits", {**RAW, "quantization.group_size": 32}, RAW, True),
        ("nll_bits", {}, RAW, True),
        ("step_weight_bytes", {**RAW, "quantization.group_size": 32}, RAW, False),
        ("tpot_ms", RAW, BLEND, False),
        (
            "nll_bits",
            {**RAW, "pruning.ranked_on": "original"},
            {**RAW, "pruning.ranked_on": "quantized"},
            False,
        ),
        ("nll_bits", {"quantization.method": "rtn"}, {}, False),
    ],
)
def test_an_effect_rests_on_a_draw_where_quality_differs_by_what_was_calibrated(
    metric: str, control: dict[str, object], candidate: dict[str, object], rests: bool
) -> None:
    assert rests_on_a_draw(metric, control, candidate) is rests
