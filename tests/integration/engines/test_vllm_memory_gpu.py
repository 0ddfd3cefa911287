"""What vLLM says on a real GPU that is too full for it is told as that: how much was missing, and what fits.

Skipped as the suite of the engine there (`test_vllm_engine_gpu.py`).
"""

from pathlib import Path

import pytest

from configs.models import load_model_profile
from experiments.engines.port import Infeasible
from experiments.engines.vllm.engine import VllmEngine
from experiments.engines.vllm.order import SHARE_FREE_AT_START
from experiments.shapes.folder import write_shape
from experiments.space.loading import load_space
from experiments.telemetry.identity import identify
from experiments.telemetry.occupants import device_use
from tests.integration.engines.test_vllm_engine_gpu import DEVICE, KNOBS, pytestmark, why_not
from tests.integration.job.test_device_guard_gpu import HELD_BYTES, holding

__all__ = ["pytestmark"]

GIB = 2**30

OF_THE_SPACE = {**KNOBS, "serving.max_model_len": 2048}
"""What the packaged space offers: of anything else it is not known what would fit."""

ENOUGH_TO_BEGIN = round(8.5 * GIB)
"""What is left free: vLLM's process and its kernels fit, 16-bit weights of 4B parameters (8.4 GB) don't."""

TOO_LITTLE_TO_BEGIN = 6 * GIB
"""Less than vLLM begins with on a card of 141 GB, whatever is to be served."""


def full_of_others(folder: Path, left_bytes: int) -> tuple[Infeasible, Infeasible]:
    """What a load says, and a check after it, of a GPU that others fill all but so many bytes of once the
    first check has found room."""
    configuration = load_space("vllm").configuration(OF_THE_SPACE)
    shape = write_shape(load_model_profile("qwen3.5-4b"), configuration, folder / "shape")
    engine = VllmEngine()
    engine.check(configuration, shape, DEVICE)
    before = device_use(DEVICE).used_bytes
    free = identify(DEVICE).free_bytes
    assert free is not None
    with holding(free - left_bytes):
        with pytest.raises(Infeasible) as told:
            engine.launch(configuration, shape, DEVICE, folder / "log", folder / "cache")
        assert device_use(DEVICE).used_bytes - before < free - left_bytes + GIB, "what failed let go of it"
        with pytest.raises(Infeasible) as refused:
            engine.check(configuration, shape, DEVICE)
    print(told.value.cause, refused.value.cause, sep="\n")
    assert device_use(DEVICE).used_bytes - before < HELD_BYTES
    for each in (told, refused):
        assert each.value.kind == "out_of_memory"
        assert "\n" not in each.value.cause
    assert "GB too few" in refused.value.cause
    return told.value, refused.value


def test_memory_that_others_took_since_the_check_is_told_with_what_was_missing(tmp_path: Path) -> None:
    told, _ = full_of_others(tmp_path, ENOUGH_TO_BEGIN)
    assert told.missing_bytes, told.cause
    assert "would fit" in told.cause


@pytest.mark.skipif(
    not why_not() and SHARE_FREE_AT_START * identify(DEVICE).memory_bytes < TOO_LITTLE_TO_BEGIN,
    reason="on this card vLLM begins with less",
)
def test_where_vllm_does_not_begin_others_are_to_go_for_nothing_smaller_would_fit(tmp_path: Path) -> None:
    told, _ = full_of_others(tmp_path, TOO_LITTLE_TO_BEGIN)
    assert told.cause.startswith("vLLM begins with ")
    assert "GiB too few; free the device of others" in told.cause
    assert "would fit" not in told.cause
