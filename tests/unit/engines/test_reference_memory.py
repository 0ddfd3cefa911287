"""The static check knows whether two launches of a configuration fit into memory side by side."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from experiments.engines.port import Infeasible
from experiments.engines.reference.drafting.order import DraftingOrder
from experiments.engines.reference.engine import ReferenceEngine
from experiments.engines.reference.inspection import inspect_checkpoint
from experiments.engines.reference.memory import check_fits, drafter_parameters, served_parameters
from experiments.reference_model.load import reference_model_path
from experiments.space.configuration import Configuration, KnobValue
from experiments.telemetry.free_memory import DeviceMemory, MemoryUnknown

GB = 10**9


@pytest.mark.parametrize(
    ("dtype", "launches", "available", "fits"),
    [
        ("float32", 1, 5 * GB, True),
        ("float32", 2, 5 * GB, False),
        ("bfloat16", 2, 6 * GB, True),
        ("float32", 2, 11 * GB, True),
    ],
)
def test_bytes_are_those_of_the_type_that_is_served_for_every_launch_that_is_up(
    dtype: str, launches: int, available: int, fits: bool
) -> None:
    if fits:
        check_fits(GB, dtype, available, launches=launches)
        return
    with pytest.raises(Infeasible, match=r"take 9\.9 GB") as refused:
        check_fits(GB, dtype, available, launches=launches)
    assert refused.value.kind == "out_of_memory"
    assert "5.0 GB are available" in refused.value.cause


def test_a_drafter_is_held_by_every_launch_too() -> None:
    check_fits(GB, "bfloat16", 6 * GB, launches=2)
    with pytest.raises(Infeasible, match="500 million of its drafter"):
        check_fits(GB, "bfloat16", 6 * GB, drafter_parameters=GB // 2, launches=2)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen3_5_text", "num_hidden_layers": 4}))
    tensors = {
        "model.embed_tokens.weight": np.ones((8, 4), np.float32),
        "mtp.a": np.ones(3, np.float32),
        "model.visual.b": np.ones(50, np.float32),
    }
    save_file(tensors, tmp_path / "model.safetensors")
    return tmp_path


def test_parameters_are_those_of_the_text_model_and_of_a_head_that_drafts(checkpoint: Path) -> None:
    files = inspect_checkpoint(checkpoint)
    assert served_parameters(files) == 32
    assert served_parameters(files, head=True) == 35
    assert drafter_parameters(DraftingOrder("mtp", 1)) == 0
    assert drafter_parameters(DraftingOrder("dflash", 1, str(checkpoint))) == 85
    assert drafter_parameters(DraftingOrder("draft_model", 1, str(checkpoint))) == 32


@pytest.mark.parametrize("knobs", [{}, {"serving.dtype": "bfloat16", "drafting.method": "mtp"}])
def test_the_static_check_refuses_what_does_not_fit(checkpoint: Path, knobs: dict[str, KnobValue]) -> None:
    configuration = Configuration.of(knobs)
    ReferenceEngine(available_bytes=lambda: 4 * GB).check(configuration, checkpoint, "cpu")
    with pytest.raises(Infeasible, match="2 launches side by side"):
        ReferenceEngine(available_bytes=lambda: GB // 2).check(configuration, checkpoint, "cpu")


def on_gpu(tmp_path: Path, free: float, total: float = 24.0) -> ReferenceEngine:
    """An engine on a machine whose GPU has so many GB free."""
    found = DeviceMemory(round(free * GB), round(total * GB))
    return ReferenceEngine(gpu_memory=lambda device: found, gpu_driver=tmp_path)


def test_on_a_gpu_what_is_free_there_decides_and_the_way_out_is_told(tmp_path: Path) -> None:
    model = reference_model_path()
    assert on_gpu(tmp_path, free=4.0).check(Configuration.of({}), model, "cuda:0", 512) is None
    long = 2_000_000
    with pytest.raises(Infeasible, match="KV cache for 2,000,000 tokens") as told:
        on_gpu(tmp_path, free=40.0, total=40.0).check(Configuration.of({}), model, "cuda:0", long)
    assert told.value.kind == "out_of_memory"
    assert "on cuda:0" in told.value.cause
    assert "40.0 of its 40.0 GB are free" in told.value.cause
    assert "a context of at most " in told.value.cause


@pytest.mark.parametrize(
    ("knobs", "ways"),
    [
        ({}, "serving.dtype=bfloat16"),
        ({"quantization.method": "awq", "quantization.bits": 4}, "serving.dtype=bfloat16"),
        ({"serving.dtype": "bfloat16"}, "nothing smaller"),
    ],
)
def test_fewer_bits_help_where_they_are_served(
    tmp_path: Path, knobs: dict[str, KnobValue], ways: str
) -> None:
    """4 bits are served dequantized here, so they count in the type that is served."""
    folder = shaped(tmp_path)
    free = 30.0 if ways.startswith("serving") else 8.0
    with pytest.raises(Infeasible, match="2 launches side by side need") as told:
        on_gpu(tmp_path, free, total=free).check(Configuration.of(knobs), folder, "cuda:0", 512)
    assert f"what would fit: {ways}" in told.value.cause


def test_a_gpu_that_can_t_be_looked_at_is_told_and_refuses_nothing(tmp_path: Path) -> None:
    def unseen(device: str) -> DeviceMemory:
        raise MemoryUnknown(f"The driver shows no {device}.")

    engine = ReferenceEngine(gpu_memory=unseen, gpu_driver=tmp_path)
    told = engine.check(Configuration.of({}), reference_model_path(), "cuda:7", 512)
    assert told == "Whether it fits into the memory of cuda:7 was not checked: The driver shows no cuda:7."


def test_a_shape_that_config_json_does_not_tell_is_told_too(checkpoint: Path, tmp_path: Path) -> None:
    told = on_gpu(tmp_path, free=1.0).check(Configuration.of({}), checkpoint, "cuda:0", 512)
    assert told is not None
    assert "was not checked" in told


def shaped(folder: Path) -> Path:
    """A checkpoint of the shape of Qwen3.5-4B whose weight file is small: the shape decides."""
    config = {
        "model_type": "qwen3_5_text",
        "vocab_size": 248_320,
        "hidden_size": 2560,
        "intermediate_size": 9216,
        "num_hidden_layers": 32,
        "num_attention_heads": 16,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
        "tie_word_embeddings": True,
    }
    found = folder / "4b"
    found.mkdir()
    (found / "config.json").write_text(json.dumps(config))
    save_file({"model.norm.weight": np.ones(4, np.float32)}, found / "model.safetensors")
    return found
