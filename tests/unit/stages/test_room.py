"""In which number format layers are ranked: by the memory there is in all, whatever of it is free."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from configs.models import load_model_profile
from experiments.artifacts.key import ArtifactKey
from experiments.engines.port import Infeasible
from experiments.reference_model.load import reference_model_path
from experiments.space.configuration import Configuration
from experiments.stages.pruning.calibration import CALIBRATION_DOCUMENTS, CALIBRATION_TOKENS
from experiments.stages.pruning.room import WEIGHTS_SHARE, Room, fits_whole, format_for
from experiments.stages.pruning.stage import DepthPruning

DOCUMENTS = [CALIBRATION_TOKENS] * CALIBRATION_DOCUMENTS
LARGE = Room(load_model_profile("qwen3.5-4b"), DOCUMENTS, 2)
PRUNED = Configuration.of({"pruning.method": "depth"})


def test_a_4b_model_takes_its_weights_and_not_much_more() -> None:
    for dtype, item in (("float32", 4), ("bfloat16", 2)):
        weights = item * LARGE.profile.text_parameters
        assert weights < LARGE.bytes_in(dtype) < 1.25 * weights


def test_float32_is_taken_where_its_weights_leave_room_and_bfloat16_elsewhere() -> None:
    enough = math.ceil(4 * LARGE.profile.text_parameters / WEIGHTS_SHARE)
    assert format_for(LARGE.profile, enough) == "float32"
    assert format_for(LARGE.profile, enough - 1) == "bfloat16"
    assert format_for(LARGE.profile, 1) == "bfloat16"
    assert format_for(LARGE.profile, None) == "float32"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_does_not_fit_now_is_told_with_the_numbers_and_not_ranked_in_another_format(dtype: str) -> None:
    needed = LARGE.streamed_bytes_in(dtype)
    assert not fits_whole(LARGE, dtype, needed, "cpu")
    with pytest.raises(Infeasible) as told:
        fits_whole(LARGE, dtype, needed - 1, "cpu")
    assert told.value.kind == "out_of_memory"
    assert f"Ranking the layers of {LARGE.profile.name} in {dtype}, the number format for" in told.value.cause
    told_gb = f"takes {needed / 1e9:.1f} GB even with one layer in memory at a time, and"
    assert told_gb in told.value.cause
    assert f"and {needed / 1e9:.1f} GB are available on cpu now" in told.value.cause


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_one_layer_at_a_time_takes_a_fraction_of_the_whole(dtype: str) -> None:
    whole = LARGE.bytes_in(dtype)
    assert fits_whole(LARGE, dtype, whole, "cpu")
    assert not fits_whole(LARGE, dtype, whole - 1, "cpu")
    assert LARGE.streamed_bytes_in(dtype) < whole / 2
    huge = Room(load_model_profile("qwen3.5-27b"), DOCUMENTS, 1)
    assert huge.bytes_in("bfloat16") > 50e9 > 16e9 > huge.streamed_bytes_in("bfloat16")


def key(device: str = "cpu", total_bytes: int | None = 2**40) -> ArtifactKey:
    stage = DepthPruning(device, total_bytes=lambda device: total_bytes)
    found = stage.key(PRUNED, reference_model_path(), (), "model")
    assert found is not None
    return found


def test_the_number_format_is_a_part_of_the_key_and_how_much_memory_there_is_is_not() -> None:
    assert key(total_bytes=2**40) == key(total_bytes=2**36) == key(total_bytes=None)
    assert key(total_bytes=2**20).digest != key().digest
    assert key(total_bytes=2**20).inputs["number_format"] == "bfloat16"
    assert key().inputs["number_format"] == "float32"


def test_the_key_of_a_checkpoint_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Infeasible) as told:
        DepthPruning().key(PRUNED, tmp_path, (), "model")
    assert told.value.kind == "checkpoint"


def test_what_is_ranked_on_a_gpu_is_another_artifact_and_which_gpu_does_not_matter() -> None:
    keys = [key(device) for device in ("cpu", "cuda:0", "cuda:1")]
    assert keys[0] != keys[1] == keys[2]
    assert "device" not in keys[0].inputs
