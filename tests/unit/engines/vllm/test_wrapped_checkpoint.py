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
from tests.integration.engines.checkpoints import tiny_mixture, write_checkpoint


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


def test_a_mixture_of_experts_is_wrapped_in_the_wrapper_of_its_own(tmp_path: Path) -> None:
    model = tiny_mixture()
    source = write_checkpoint(tmp_path / "text", model)
    known = {"Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration"}
    assert served_folder(source, known | {"Qwen3_5MoeForCausalLM"}, tmp_path / "kept") == source
    wrapped = served_folder(source, known, tmp_path / "kept")
    config = json.loads((wrapped / "config.json").read_text())
    assert config["architectures"] == ["Qwen3_5MoeForConditionalGeneration"]
    assert (config["model_type"], config["text_config"]["model_type"]) == ("qwen3_5_moe", "qwen3_5_moe_text")
    assert config["text_config"]["num_experts"] == 8
    files = inspect_checkpoint(wrapped)
    assert "model.language_model.layers.0.mlp.experts.gate_up_proj" in files.tensors
    ids = torch.arange(20)[None]
    with torch.inference_mode():
        assert torch.equal(
            load_model(files, torch.float32, torch.device("cpu"))(ids).logits, model(ids).logits
        )
    assert served_folder(source, {"Qwen3_5ForConditionalGeneration"}, tmp_path / "kept") == source


def test_a_text_is_wrapped_for_the_version_that_loads_it_and_not_its_mtp_head() -> None:
    both = {"Qwen3_5ForConditionalGeneration", "Qwen3_5ForCausalLM"}
    assert served_architectures(both, (0, 27)) == {"Qwen3_5ForConditionalGeneration"}
    assert served_architectures(both, (0, 28)) == served_architectures(both, None) == both
    mixtures = {"Qwen3_5MoeForConditionalGeneration", "Qwen3_5MoeForCausalLM"}
    assert served_architectures(mixtures, (0, 27)) == {"Qwen3_5MoeForConditionalGeneration"}


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
