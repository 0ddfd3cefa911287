"""A step under a mode of graphs takes as long as its kernels, or as the processor needs to launch them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.surrogate.graph_modes import (
    LAYER_MS,
    NO_GRAPHS,
    PIECEWISE,
    PROCESSOR_SD_LOG,
    SAME_STEP_SD_LOG,
    WHOLE_STEPS,
    fewer_launches,
    of_graph_mode,
    waiting,
)

MODES = (*NO_GRAPHS, PIECEWISE, *WHOLE_STEPS)
MS = st.floats(0.01, 1e3)


@given(st.sampled_from(WHOLE_STEPS), st.sampled_from(MODES), MS, st.floats(0, 0.9), st.integers(1, 2000))
def test_nothing_is_expected_to_win_over_one_graph_of_a_whole_step(
    before: str, mode: str, step_ms: float, outside: float, launches: int
) -> None:
    mean, sd = of_graph_mode(mode, before, step_ms=step_ms, outside=outside, launches=launches, layers=32)
    assert mean >= 0
    assert SAME_STEP_SD_LOG <= sd <= PROCESSOR_SD_LOG + 1e-9
    assert not fewer_launches(mode, before)


@given(MS, MS, st.floats(1.01, 10))
def test_a_slower_processor_and_faster_kernels_make_a_step_wait_longer(
    processor_ms: float, step_ms: float, more: float
) -> None:
    mean, _ = waiting(processor_ms, step_ms)
    assert waiting(processor_ms * more, step_ms)[0] >= mean >= waiting(processor_ms, step_ms * more)[0]
    assert mean >= max(0.0, math.log(processor_ms / step_ms)) - 1e-9, (
        "the longer of the two, and what is open"
    )


def test_where_kernels_take_far_longer_than_the_processor_nothing_is_lost() -> None:
    assert waiting(1.0, 20.0) == (pytest.approx(0, abs=1e-6), SAME_STEP_SD_LOG)
    mean, sd = waiting(20.0, 1.0)
    assert mean == pytest.approx(math.log(20))
    assert sd == pytest.approx(PROCESSOR_SD_LOG)
    assert waiting(0.0, 1.0) == (0.0, SAME_STEP_SD_LOG), "no kernel was counted"


@pytest.mark.parametrize(
    ("step_ms", "piecewise_ms"),
    [
        pytest.param(2.93, 9.77, id="Humming with vLLM 0.33"),
        pytest.param(5.04, 12.67, id="16 bits with 0.26"),
        pytest.param(3.13, 9.11, id="Marlin with 0.26"),
    ],
)
def test_what_piecewise_graphs_took_on_an_h200_lies_within_what_is_expected(
    step_ms: float, piecewise_ms: float
) -> None:
    mean, sd = of_graph_mode(
        PIECEWISE, "full_and_piecewise", step_ms=step_ms, outside=0.05, launches=463, layers=32
    )
    assert abs(math.log(piecewise_ms / step_ms) - mean) < 1.2816 * sd, "80 %"


def test_without_the_number_of_layers_a_mode_may_win_or_lose_what_lies_outside_kernels() -> None:
    told = of_graph_mode(PIECEWISE, "full", step_ms=3.0, outside=0.2, launches=463, layers=0)
    assert told == (0.0, pytest.approx(0.1))
    assert of_graph_mode(PIECEWISE, "auto", step_ms=3.0, outside=0.2, launches=463, layers=32) == told, (
        "nor where it is not told what ran"
    )


@pytest.mark.parametrize("before", [*NO_GRAPHS, PIECEWISE])
def test_one_graph_of_a_step_takes_away_most_of_what_lies_outside_kernels(before: str) -> None:
    mean, _ = of_graph_mode("full", before, step_ms=10 * LAYER_MS, outside=0.5, launches=463, layers=32)
    assert mean == pytest.approx(math.log(1 - 0.7 * 0.5))
    assert fewer_launches("full", before)
