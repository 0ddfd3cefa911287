"""A checkpoint loads as transformers loads it, in every form in which it is published."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM

from experiments.engines.port import Infeasible
from experiments.engines.reference.checkpoint import load_model
from experiments.engines.reference.inspection import inspect_checkpoint
from tests.integration.engines.checkpoints import tiny_model, write_checkpoint

CPU = torch.device("cpu")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_loading_gives_what_from_pretrained_gives(tmp_path: Path, dtype: torch.dtype) -> None:
    write_checkpoint(tmp_path, tiny_model())
    theirs = Qwen3_5ForCausalLM.from_pretrained(tmp_path, dtype=dtype).eval()
    ours = load_model(inspect_checkpoint(tmp_path), dtype, CPU)
    expected = dict(theirs.named_parameters()) | dict(theirs.named_buffers())
    found = dict(ours.named_parameters()) | dict(ours.named_buffers())
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert tensor.dtype == found[name].dtype, name
        assert torch.equal(tensor, found[name]), name
    ids = torch.arange(20)[None]
    with torch.inference_mode():
        assert torch.equal(theirs(ids).logits, ours(ids).logits)


@pytest.mark.parametrize("form", [{"wrapper": True}, {"shards": 3}, {"wrapper": True, "shards": 2}])
def test_every_published_form_is_the_same_model(tmp_path: Path, form: dict[str, int]) -> None:
    model = tiny_model()
    write_checkpoint(tmp_path, model, **form)  # type: ignore[arg-type]
    loaded = load_model(inspect_checkpoint(tmp_path), torch.float32, CPU)
    ids = torch.arange(20)[None]
    with torch.inference_mode():
        assert torch.equal(model(ids).logits, loaded(ids).logits)
    assert not any(parameter.requires_grad for parameter in loaded.parameters())


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [("a tensor is missing", "lacks 1 of"), ("one too many", "does not account for"), ("shape", "asks for")],
)
def test_weights_that_do_not_fit_the_configuration_are_refused(
    tmp_path: Path, damage: str, sentence: str
) -> None:
    write_checkpoint(tmp_path, tiny_model())
    tensors = load_file(tmp_path / "model.safetensors")
    match damage:
        case "a tensor is missing":
            del tensors["model.layers.1.mlp.up_proj.weight"]
        case "one too many":
            tensors["model.layers.1.mlp.up_proj.qweight"] = torch.ones(2)
        case "shape":
            tensors["model.norm.weight"] = torch.ones(7)
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(Infeasible, match=sentence) as told:
        load_model(inspect_checkpoint(tmp_path), torch.float32, CPU)
    assert told.value.kind == "checkpoint"


def test_a_configuration_that_transformers_refuses_is_refused_in_a_sentence(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, tiny_model())
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"hidden_size": "wide"}))
    with pytest.raises(Infeasible, match="hidden_size") as told:
        load_model(inspect_checkpoint(tmp_path), torch.float32, CPU)
    assert told.value.kind == "checkpoint"
    assert "\n" not in told.value.cause
