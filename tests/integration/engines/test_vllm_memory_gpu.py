"""What vLLM says on a real GPU that is too full for it is told as that: how much was missing, and what fits.

Skipped as the suite of the engine there (`test_vllm_engine_gpu.py`).
"""

from pathlib import Path

import pytest

from configs.models import load_model_profile
from experiments.engines.port import Infeasible
from experiments.engines.vllm.engine import VllmEngine
from experiments.shapes.folder import write_shape
from experiments.space.configuration import Configuration
from experiments.telemetry.identity import identify
from experiments.telemetry.occupants import device_use
from tests.integration.engines.test_vllm_engine_gpu import DEVICE, KNOBS, pytestmark
from tests.integration.job.test_device_guard_gpu import HELD_BYTES, holding

__all__ = ["pytestmark"]

GIB = 2**30
LEFT_BYTES = 6 * GIB
"""What is left free: the process and its kernels fit, 16-bit weights of 4B parameters (8 GB) don't."""


def test_memory_that_others_took_since_the_check_is_told_with_what_was_missing(tmp_path: Path) -> None:
    configuration = Configuration.of(KNOBS)
    shape = write_shape(load_model_profile("qwen3.5-4b"), configuration, tmp_path / "shape")
    engine = VllmEngine()
    engine.check(configuration, shape, DEVICE)
    before = device_use(DEVICE).used_bytes
    free = identify(DEVICE).free_bytes
    assert free is not None
    with holding(free - LEFT_BYTES):
        with pytest.raises(Infeasible) as told:
            engine.launch(configuration, shape, DEVICE, tmp_path / "log", tmp_path / "cache")
        assert device_use(DEVICE).used_bytes - before < free - LEFT_BYTES + GIB, "what failed let go of it"
        with pytest.raises(Infeasible) as refused:
            engine.check(configuration, shape, DEVICE)
    print(told.value.cause, refused.value.cause, sep="\n")
    assert told.value.kind == refused.value.kind == "out_of_memory"
    assert told.value.missing_bytes, told.value.cause
    assert "\n" not in told.value.cause
    assert "would fit" in told.value.cause
    assert "GB too few" in refused.value.cause
    assert device_use(DEVICE).used_bytes - before < HELD_BYTES
