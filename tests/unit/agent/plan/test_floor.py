"""The floor before anything is measured is exact arithmetic, and what was measured lies above it."""

import pytest

from agent.plan.floor import floors
from configs.hardware import load_hardware_profile
from configs.models import load_model_profile

H200 = load_hardware_profile("h200").bandwidth_bytes_per_s


@pytest.mark.parametrize(
    ("model", "gigabytes"),
    [
        ("qwen3.5-4b", (8.41, 4.85, 3.13, 3.34, 2.19)),
        ("qwen3.5-9b", (15.87, 8.96, 5.64, 6.05, 4.13)),
    ],
)
def test_the_bytes_of_a_step_in_each_format(model: str, gigabytes: tuple[float, ...]) -> None:
    rows = floors(load_model_profile(model), H200, on_gpu=True, context_tokens=0)
    names = ["bfloat16", "fp8", "w4_g128", "w4_g32", "w4_g128_head"]
    assert [row.weights for row in rows] == names
    assert [row.weight_bytes / 1e9 for row in rows] == pytest.approx(gigabytes, abs=0.01)


def test_what_was_measured_of_the_9b_shape_on_an_h200_is_above_its_floor() -> None:
    profile = load_model_profile("qwen3.5-9b")
    found = {row.weights: row.floor_ms for row in floors(profile, H200, on_gpu=True, context_tokens=640)}
    for weights, measured_ms in {"bfloat16": 5.28, "fp8": 3.86, "w4_g128": 3.58, "w4_g32": 3.65}.items():
        floor_ms = found[weights]
        assert floor_ms is not None
        assert 0.3 * measured_ms < floor_ms < measured_ms


def test_each_sequence_moves_its_own_keys_values_and_states() -> None:
    profile = load_model_profile("qwen3.5-9b")
    one, four = (
        floors(profile, H200, on_gpu=True, context_tokens=100, sequences=count)[0] for count in (1, 4)
    )
    assert one.cache_bytes == 100 * 32_768 + 2 * 48 * 2**20
    assert four.cache_bytes == 4 * one.cache_bytes
    assert four.weight_bytes == one.weight_bytes


def test_without_a_listed_bandwidth_bytes_are_told_and_no_time() -> None:
    rows = floors(load_model_profile("reference"), None, on_gpu=False, context_tokens=64)
    assert [row.weights for row in rows] == ["float32", "bfloat16"]
    assert all(row.floor_ms is None and row.weight_bytes > 0 for row in rows)
