"""A checkpoint in the wrapper that vLLM wants is the same model."""

import json
from pathlib import Path

import pytest
import torch

from experiments.engines.reference.checkpoint import load_model
from experiments.engines.reference.inspection import inspect_checkpoint
from experiments.engines.vllm.wrapped_checkpoint import (
    served_architectures,
    served_folder,
    wrap_checkpoint,
    wrapped_config,
    wrapped_name,
)
from experiments.reference_model.load import reference_model_path


def test_the_reference_engine_loads_the_same_weights_from_the_wrapper(tmp_path: Path) -> None:
    source = reference_model_path()
    wrapped = wrap_checkpoint(source, tmp_path / "wrapped")
    before, after = (
        load_model(inspect_checkpoint(folder), torch.bfloat16, torch.device("cpu")).state_dict()
        for folder in (source, wrapped)
    )
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_the_mtp_head_and_the_head_stay_outside_the_wrapper() -> None:
    assert wrapped_name("mtp.fc.weight") == "mtp.fc.weight"
    assert wrapped_name("lm_head.weight") == "lm_head.weight"
    once = wrapped_name("model.norm.weight")
    assert once == "model.language_model.norm.weight"
    assert wrapped_name(once) == once


def test_quantization_is_named_at_the_top_of_the_wrapper() -> None:
    text = json.loads((reference_model_path() / "config.json").read_text())
    wrapped = wrapped_config(text | {"quantization_config": {"quant_method": "compressed-tensors"}})
    assert wrapped["quantization_config"] == {"quant_method": "compressed-tensors"}
    assert "quantization_config" not in wrapped["text_config"]


def test_another_kind_of_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(ValueError, match="model type llama"):
        wrap_checkpoint(tmp_path, tmp_path / "out")


def test_a_text_is_wrapped_for_the_version_that_loads_it_and_not_its_mtp_head() -> None:
    both = {"Qwen3_5ForConditionalGeneration", "Qwen3_5ForCausalLM"}
    assert served_architectures(both, (0, 27)) == {"Qwen3_5ForConditionalGeneration"}
    assert served_architectures(both, (0, 28)) == served_architectures(both, None) == both


def test_a_checkpoint_is_wrapped_where_vllm_knows_the_wrapper_alone_and_once(tmp_path: Path) -> None:
    text = reference_model_path()
    known = {"Qwen3_5ForConditionalGeneration"}
    assert served_folder(text, known | {"Qwen3_5ForCausalLM"}, tmp_path) == text
    wrapped = served_folder(text, known, tmp_path)
    assert json.loads((wrapped / "config.json").read_text())["architectures"] == sorted(known)
    stamp = (wrapped / "config.json").stat().st_mtime_ns
    assert served_folder(text, known, tmp_path) == wrapped
    assert (wrapped / "config.json").stat().st_mtime_ns == stamp
    assert served_folder(wrapped, known, tmp_path) == wrapped
    assert [each.name for each in tmp_path.iterdir()] == [wrapped.name]
