"""A step under a mode of graphs takes as long as its kernels, or as the processor needs to launch them."""

from __future__ import annotations

import math
from statistics import NormalDist

import pytest
from hypothesis import example, given
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


def gain(mean: float, sd: float, least: float = 0.0) -> float:
    """The chance that a step with this belief of its log takes less than before, by at least so much."""
    return NormalDist(mean, sd).cdf(math.log1p(-least))


@given(st.sampled_from(WHOLE_STEPS), st.sampled_from(MODES), MS, st.floats(0, 0.9), st.integers(1, 2000))
@example("full", "eager", 95.0, 0.0, 349)
def test_nothing_is_expected_to_win_over_one_graph_of_a_whole_step(
    before: str, mode: str, step_ms: float, outside: float, launches: int
) -> None:
    mean, sd = of_graph_mode(mode, before, step_ms=step_ms, outside=outside, launches=launches, layers=32)
    assert mean >= 0
    assert SAME_STEP_SD_LOG <= sd <= PROCESSOR_SD_LOG + 1e-9
    assert mode in WHOLE_STEPS or gain(mean, sd) <= max(0.101, gain(0.0, SAME_STEP_SD_LOG))
    assert not fewer_launches(mode, before)


@given(MS, MS, st.floats(1.01, 10))
@example(5.0, 58.0, 1.1)
def test_a_slower_processor_and_faster_kernels_make_a_step_wait_longer(
    processor_ms: float, step_ms: float, more: float
) -> None:
    mean, _ = waiting(processor_ms, step_ms)
    assert waiting(processor_ms * more, step_ms)[0] >= mean - 1e-9
    assert mean >= waiting(processor_ms, step_ms * more)[0] - 1e-9
    assert mean >= max(0.0, math.log(processor_ms / step_ms)) - 1e-9, (
        "the longer of the two, and what is open"
    )


def test_where_kernels_take_far_longer_than_the_processor_nothing_is_lost() -> None:
    assert waiting(1.0, 20.0) == (pytest.approx(0, abs=1e-6), SAME_STEP_SD_LOG)
    mean, sd = waiting(20.0, 1.0)
    assert mean == pytest.approx(math.log(20))
    assert sd == pytest.approx(PROCESSOR_SD_LOG)
    assert waiting(0.0, 1.0) == (0.0, SAME_STEP_SD_LOG), "no kernel was counted"


def test_where_both_take_as_long_the_longer_of_them_is_longer_than_either() -> None:
    mean, sd = waiting(3.0, 3.0)
    assert mean == pytest.approx(0.3 / math.sqrt(2 * math.pi)), "half of a normal of 30 %"
    assert gain(mean, sd) == pytest.approx(0.1)


@pytest.mark.parametrize("ratio", [0.5, 0.7, 0.8, 1.0, 1.5])
def test_a_mode_that_only_waits_longer_is_hardly_ever_expected_to_win_three_percent(ratio: float) -> None:
    assert gain(*waiting(ratio * 3.0, 3.0), least=0.03) < 0.1


@pytest.mark.parametrize(
    ("step_ms", "piecewise_ms"),
    [
        pytest.param(2.93, 9.77, id="Humming with vLLM 0.33"),
        pytest.param(5.04, 12.67, id="16 bits with 0.26"),
        pytest.param(3.13, 9.11, id="Marlin with 0.26"),
    ],
)
def test_the_time_of_a_layer_fits_what_it_was_taken_from(step_ms: float, piecewise_ms: float) -> None:
    mean, sd = of_graph_mode(
        PIECEWISE, "full_and_piecewise", step_ms=step_ms, outside=0.05, launches=463, layers=32
    )
    assert abs(math.log(piecewise_ms / step_ms) - mean) < 1.2816 * sd, "80 %"


def test_the_packaged_model_s_twelve_layers_were_not_taken_and_fit_too() -> None:
    """Five requests on an H200, the case `piecewise` in docs/results/tables/h200-levers-once.jsonl."""
    for took_ms in (4.00, 3.89, 4.28, 4.76, 4.65):
        assert abs(math.log(took_ms / (12 * LAYER_MS))) < PROCESSOR_SD_LOG


def test_without_the_number_of_layers_a_mode_may_win_or_lose_what_lies_outside_kernels() -> None:
    told = of_graph_mode(PIECEWISE, "full", step_ms=3.0, outside=0.2, launches=463, layers=0)
    assert told == (0.0, pytest.approx(0.1))
    assert of_graph_mode(PIECEWISE, "auto", step_ms=3.0, outside=0.2, launches=463, layers=32) == told, (
        "nor where it is not told what ran"
    )


def test_from_no_graphs_to_piecewise_ones_the_processor_stays_what_is_waited_for() -> None:
    step_ms = 11.6
    piecewise, _ = of_graph_mode(PIECEWISE, "none", step_ms=step_ms, outside=0.77, launches=463, layers=32)
    whole, _ = of_graph_mode("full", "none", step_ms=step_ms, outside=0.77, launches=463, layers=32)
    assert step_ms * math.exp(piecewise) == pytest.approx(32 * LAYER_MS, rel=0.02)
    assert whole == pytest.approx(math.log(1 - 0.7 * 0.77))


@pytest.mark.parametrize("before", [*NO_GRAPHS, PIECEWISE])
def test_one_graph_of_a_step_takes_away_most_of_what_lies_outside_kernels(before: str) -> None:
    mean, _ = of_graph_mode("full", before, step_ms=10 * LAYER_MS, outside=0.5, launches=463, layers=32)
    assert mean == pytest.approx(math.log(1 - 0.7 * 0.5))
    assert fewer_launches("full", before)
