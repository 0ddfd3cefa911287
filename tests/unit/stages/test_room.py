"""In which number format layers are ranked, by what is free."""

from __future__ import annotations

from pathlib import Path

import pytest

from configs.models import load_model_profile
from experiments.engines.port import Infeasible
from experiments.space.configuration import Configuration
from experiments.stages.pruning.calibration import CALIBRATION_DOCUMENTS, CALIBRATION_TOKENS
from experiments.stages.pruning.room import Room, format_that_fits
from experiments.stages.pruning.stage import DepthPruning

DOCUMENTS = [CALIBRATION_TOKENS] * CALIBRATION_DOCUMENTS
LARGE = Room(load_model_profile("qwen3.5-4b"), DOCUMENTS, 2)
PRUNED = Configuration.of({"pruning.method": "depth"})


def test_a_4b_model_takes_its_weights_and_not_much_more() -> None:
    for dtype, item in (("float32", 4), ("bfloat16", 2)):
        weights = item * LARGE.profile.text_parameters
        assert weights < LARGE.bytes_in(dtype) < 1.25 * weights


def test_float32_is_taken_where_it_fits_and_bfloat16_where_only_that_does() -> None:
    full, half = LARGE.bytes_in("float32"), LARGE.bytes_in("bfloat16")
    assert format_that_fits(LARGE, full, "cpu") == "float32"
    assert format_that_fits(LARGE, full - 1, "cpu") == "bfloat16"
    assert format_that_fits(LARGE, half, "cpu") == "bfloat16"


def test_what_fits_in_neither_is_told_with_the_numbers() -> None:
    with pytest.raises(Infeasible) as told:
        format_that_fits(LARGE, 4_000_000_000, "cpu")
    assert told.value.kind == "out_of_memory"
    assert "GB in float32 and" in told.value.cause
    assert "and 4.0 GB are available on cpu" in told.value.cause


def test_what_is_ranked_on_a_gpu_is_another_artifact_and_which_gpu_does_not_matter() -> None:
    keys = [
        DepthPruning(device).key(PRUNED, Path("unread"), (), "model")
        for device in ("cpu", "cuda:0", "cuda:1")
    ]
    assert keys[0] != keys[1] == keys[2]
    assert "device" not in keys[0].inputs
