"""The prior from bytes, bandwidth and the profile."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from agent.surrogate.levers import LeverView
from agent.surrogate.physics import FLOOR_SHARE_UNKNOWN, SWEEP_SD_LOG, Physics
from experiments.engines.port import PartTime
from experiments.space.configuration import Configuration
from experiments.space.loading import load_space
from tests.recorded.vllm_kernels import PROFILED, recorded_parts
from tests.unit.agent.campaigns import (
    BANDWIDTH_BYTES_PER_S,
    BASELINE,
    COMPILED,
    HALF,
    LAYERS,
    PHYSICS,
    PROFILE,
    SPACE,
    TPOT_MS,
    changed,
    pruned,
)

VIEW = LeverView.of(SPACE, BASELINE)

GPU_SPACE = load_space("vllm")
GPU_BASELINE = GPU_SPACE.configuration({})
PREFILL = (("serving.gdn_prefill_backend", "triton"),)
TRITON = GPU_SPACE.with_change(GPU_BASELINE, dict(PREFILL))
GPU = Physics(
    GPU_BASELINE,
    5.36,
    tuple(recorded_parts("bf16")),
    bandwidth_bytes_per_s=float(PROFILED["bf16"]["copy_bytes_per_s"]),
    one_at_once=True,
)
"""A lone request of the 9B shape on an H200."""


def expected(configuration: Configuration, physics: Physics = PHYSICS) -> tuple[float, float]:
    [(lever, setting)] = VIEW.settings(configuration).items()
    found = physics.expect(lever, setting)
    return found.mean_log, found.sd_log


def test_floor_and_overhead_make_up_the_step() -> None:
    read = sum(part.weight_bytes for part in PROFILE)
    assert pytest.approx(1e3 * read / BANDWIDTH_BYTES_PER_S) == PHYSICS.floor_ms
    assert pytest.approx(TPOT_MS) == PHYSICS.floor_ms + PHYSICS.overhead_ms


def test_the_memory_gives_at_least_what_the_fastest_part_of_the_profile_reads_at() -> None:
    """Where nobody measured it: the output head reads 4 MB in 0.3 ms, which 13.3 GB/s at least allow."""
    unmeasured = replace(PHYSICS, bandwidth_bytes_per_s=None)
    assert unmeasured.floor_ms == pytest.approx(PHYSICS.weight_bytes * 0.3 / 4_000_000)
    assert unmeasured.floor_ms < FLOOR_SHARE_UNKNOWN * TPOT_MS


def test_a_part_of_a_few_bytes_tells_of_the_clock_and_not_of_the_memory() -> None:
    unmeasured = replace(PHYSICS, bandwidth_bytes_per_s=None)
    quick = replace(unmeasured, profile=(*PROFILE, PartTime("scale", "norm", 1e-6, 100)))
    assert quick.floor_ms == pytest.approx(unmeasured.floor_ms, rel=1e-4)


def test_without_a_profile_an_assumed_share_of_the_step_is_the_floor() -> None:
    assert Physics(BASELINE, TPOT_MS).floor_ms == FLOOR_SHARE_UNKNOWN * TPOT_MS


def test_pruned_layers_remove_their_measured_share_of_the_step() -> None:
    total = sum(part.time_ms for part in PROFILE)
    gdn = (0.8 + 0.2) / total
    mean, sd = expected(pruned(2, "gdn"))
    assert mean == pytest.approx(math.log1p(-2 * gdn))
    assert 0 < sd < abs(mean)


def test_a_layer_of_the_slower_kind_saves_more() -> None:
    assert expected(pruned(1, "gdn"))[0] < expected(pruned(1, "any"))[0] < expected(pruned(1, "attention"))[0]


def test_compilation_can_only_remove_overhead_and_is_hardly_known() -> None:
    mean, sd = expected(COMPILED)
    assert PHYSICS.floor_ms / TPOT_MS < math.exp(mean) < 1
    assert sd > 0.2
    at_the_floor = replace(PHYSICS, bandwidth_bytes_per_s=1e3 * PHYSICS.weight_bytes / TPOT_MS)
    assert expected(COMPILED, at_the_floor)[0] == pytest.approx(0)


def test_half_the_bits_halve_the_floor_and_leave_the_overhead() -> None:
    mean, sd = expected(HALF)
    assert TPOT_MS * math.exp(mean) == pytest.approx(PHYSICS.overhead_ms + PHYSICS.floor_ms / 2)
    assert sd > abs(mean)


def test_what_the_sweep_measured_is_taken_over_a_guess() -> None:
    one = changed({"serving.threads": 1})
    swept = replace(PHYSICS, swept_log={one: math.log(10.0 / TPOT_MS)})
    assert expected(one)[0] == 0
    mean, sd = expected(one, swept)
    assert mean == pytest.approx(math.log(10.0 / TPOT_MS), rel=0.05)
    assert sd == pytest.approx(SWEEP_SD_LOG, rel=0.05)


def test_what_the_sweep_measured_makes_nothing_less_certain() -> None:
    """The kernels for prompts were swept on an H200, +0.3 % a token, which tells no more than that a decode
    step does not run them."""
    guess = GPU.expect("gdn_prefill", PREFILL)
    told = replace(GPU, swept_log={GPU_BASELINE: 0.0, TRITON: 0.003}).expect("gdn_prefill", PREFILL)
    assert told.sd_log < min(guess.sd_log, SWEEP_SD_LOG)
    assert guess.mean_log == 0 < told.mean_log < 0.003


def test_a_sweep_that_contradicts_a_guess_is_believed_more_than_that() -> None:
    """A guess of 0 with 2 % says that nothing else is known, not that 20 % can't be."""
    told = replace(GPU, swept_log={GPU_BASELINE: 0.0, TRITON: 0.2}).expect("gdn_prefill", PREFILL)
    assert 0.1 < told.mean_log < 0.2
    assert 0.03 < told.sd_log <= SWEEP_SD_LOG


def test_what_is_of_parts_or_open_with_others_gives_way_to_the_sweep() -> None:
    state = (("serving.gdn_state_dtype", "bfloat16"),)
    assert GPU.expect("gdn_state", state).parts
    narrow = GPU_SPACE.with_change(GPU_BASELINE, dict(state))
    told = replace(GPU, swept_log={GPU_BASELINE: 0.0, narrow: -0.05}).expect("gdn_state", state)
    assert (told.mean_log, told.sd_log, dict(told.parts)) == (-0.05, SWEEP_SD_LOG, {})


def test_graphs_that_end_at_each_layer_are_expected_to_cost_and_on_a_busy_server_less_of_a_token() -> None:
    piecewise = (("serving.graph_mode", "piecewise"),)
    runs = {"graph_mode": "full_and_piecewise"}
    alone = replace(GPU, model_layers=("linear_attention",) * 32, incumbent_runs=runs)
    mean, sd = (lambda found: (found.mean_log, found.sd_log))(alone.expect("graphs", piecewise))
    assert mean == pytest.approx(math.log(32 * 0.33 / 5.36), abs=0.02)
    busy = replace(alone, tpot_ms=4 * 5.36).expect("graphs", piecewise)
    step_ms = GPU.own.step_ms if GPU.own else 0.0
    assert math.exp(busy.mean_log) == pytest.approx(1 + step_ms / (4 * 5.36) * math.expm1(mean))
    assert busy.sd_log < sd
    assert replace(alone, model_layers=()).expect("graphs", piecewise).mean_log == 0
    best_alone = replace(alone, profile=(), incumbent_profile=GPU.profile)
    assert best_alone.expect("graphs", piecewise).mean_log == pytest.approx(mean), (
        "the best was profiled alone"
    )


def test_without_a_profile_layers_share_the_step_evenly() -> None:
    blind = Physics(BASELINE, TPOT_MS, (), LAYERS)
    assert expected(pruned(1), blind)[0] == pytest.approx(math.log1p(-1 / (len(LAYERS) + 1)))


def test_no_change_is_expected_to_remove_the_whole_step() -> None:
    few = Physics(BASELINE, TPOT_MS, (), ("linear_attention",) * 2)
    assert math.isfinite(expected(pruned(4), few)[0])
