"""A checkpoint in the wrapper that vLLM wants is the same model."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest
import torch

from experiments.engines.reference.checkpoint import load_model
from experiments.engines.reference.inspection import inspect_checkpoint
from experiments.reference_model.load import reference_model_path

SCRIPT = Path(__file__).parents[2] / "device" / "wrapped_checkpoint.py"


@pytest.fixture(scope="module")
def wrapping() -> ModuleType:
    spec = importlib.util.spec_from_file_location("wrapped_checkpoint", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_engine_loads_the_same_weights_from_the_wrapper(
    wrapping: ModuleType, tmp_path: Path
) -> None:
    source = reference_model_path()
    wrapped = wrapping.wrap_checkpoint(source, tmp_path / "wrapped")
    before, after = (
        load_model(inspect_checkpoint(folder), torch.bfloat16, torch.device("cpu")).state_dict()
        for folder in (source, wrapped)
    )
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_the_mtp_head_and_the_head_stay_outside_the_wrapper(wrapping: ModuleType) -> None:
    assert wrapping.wrapped_name("mtp.fc.weight") == "mtp.fc.weight"
    assert wrapping.wrapped_name("lm_head.weight") == "lm_head.weight"
    once = wrapping.wrapped_name("model.norm.weight")
    assert once == "model.language_model.norm.weight"
    assert wrapping.wrapped_name(once) == once


def test_quantization_is_named_at_the_top_of_the_wrapper(wrapping: ModuleType) -> None:
    text = json.loads((reference_model_path() / "config.json").read_text())
    wrapped = wrapping.wrapped_config(text | {"quantization_config": {"quant_method": "compressed-tensors"}})
    assert wrapped["quantization_config"] == {"quant_method": "compressed-tensors"}
    assert "quantization_config" not in wrapped["text_config"]


def test_another_kind_of_model_is_refused(wrapping: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(ValueError, match="model type llama"):
        wrapping.wrap_checkpoint(tmp_path, tmp_path / "out")
