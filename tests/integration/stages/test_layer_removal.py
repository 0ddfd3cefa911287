"""The files of a checkpoint without some layers are those of a model with fewer layers, quantized or not."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from experiments.engines.port import Infeasible
from experiments.engines.reference.checkpoint import load_model
from experiments.engines.reference.inspection import inspect_checkpoint
from experiments.stages.pruning.layer_removal import KEPT_LAYERS, remove_layers
from tests.integration.engines.checkpoints import LAYERS, tiny_model, write_checkpoint
from tests.integration.engines.packed_checkpoints import (
    AWQ_CONFIG,
    awq_gemm,
    by_hand,
    compressed_tensors_config,
    pack_quantized,
)
from tests.integration.stages.pruned import pruned_by_hand


@pytest.mark.parametrize("form", [{}, {"wrapper": True}, {"shards": 3}, {"wrapper": True, "shards": 2}])
@pytest.mark.parametrize("removed", [(0,), (1, 3), (4,)])
def test_the_pruned_checkpoint_is_the_model_without_those_layers(
    tmp_path: Path, form: dict[str, int], removed: tuple[int, ...]
) -> None:
    model = tiny_model(layers=LAYERS)
    before = inspect_checkpoint(write_checkpoint(tmp_path / "before", model, **form))  # type: ignore[arg-type]
    remove_layers(before, removed, tmp_path / "after")
    after = inspect_checkpoint(tmp_path / "after")
    loaded = load_model(after, torch.float32, torch.device("cpu"))
    ids = torch.arange(30)[None]
    with torch.inference_mode():
        assert torch.equal(loaded(ids).logits, pruned_by_hand(model, set(removed))(ids).logits)


def test_transformers_loads_the_pruned_checkpoint_unchanged(tmp_path: Path) -> None:
    model = tiny_model(layers=LAYERS)
    before = inspect_checkpoint(write_checkpoint(tmp_path / "before", model, dtype=torch.bfloat16))
    remove_layers(before, (1, 2), tmp_path / "after")
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "after")
    assert loaded.config.layer_types == [LAYERS[0], LAYERS[3], LAYERS[4]]
    assert loaded.config.num_hidden_layers == 3
    expected = model.model.layers[3].mlp.up_proj.weight.to(torch.bfloat16)
    assert torch.equal(loaded.model.layers[1].mlp.up_proj.weight, expected)


def test_what_is_no_layer_stays_byte_for_byte(tmp_path: Path) -> None:
    source = write_checkpoint(tmp_path / "before", tiny_model(layers=LAYERS), dtype=torch.bfloat16)
    (source / "tokenizer.json").write_text('{"kept": "naïve"}')
    (source / "README.md").write_text("A card of the model before.")
    remove_layers(inspect_checkpoint(source), (0,), tmp_path / "after")
    before, after = (load_file(folder / "model.safetensors") for folder in (source, tmp_path / "after"))
    outside = {name for name in before if not name.startswith("model.layers.")}
    assert {"mtp.fc.weight", "mtp.layers.0.mlp.up_proj.weight", "model.norm.weight"} <= outside
    for name in outside:
        assert torch.equal(before[name], after[name])
        assert before[name].dtype == after[name].dtype
    with safe_open(tmp_path / "after" / "model.safetensors", framework="pt") as tensors:
        assert tensors.metadata() == {"format": "pt"}
    for name in ("tokenizer.json", "generation_config.json"):
        assert (tmp_path / "after" / name).read_bytes() == (source / name).read_bytes()
    assert not (tmp_path / "after" / "README.md").exists()


def test_a_second_pruning_still_tells_the_layers_of_the_model_before_the_first(tmp_path: Path) -> None:
    source = write_checkpoint(tmp_path / "before", tiny_model(layers=LAYERS))
    remove_layers(inspect_checkpoint(source), (0,), tmp_path / "once")
    remove_layers(inspect_checkpoint(tmp_path / "once"), (1,), tmp_path / "twice")
    once, twice = (inspect_checkpoint(tmp_path / name).text_config for name in ("once", "twice"))
    assert once[KEPT_LAYERS] == [1, 2, 3, 4]
    assert twice[KEPT_LAYERS] == [1, 3, 4]
    assert twice["mtp_num_hidden_layers"] == 1
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "twice").config.num_hidden_layers == 3


@pytest.mark.parametrize(
    ("removed", "sentence"),
    [
        ((5,), r"Layer 5 can't be taken out: this model's layers are 0 to 4\. What follows them is the MTP"),
        ((0, -1), "Layer -1 can't be taken out"),
        ((0, 1, 2, 3, 4), "All 5 layers can't be taken out"),
        ((1, 1), "named twice"),
    ],
)
def test_the_mtp_head_s_layer_and_everything_are_refused(
    tmp_path: Path, removed: tuple[int, ...], sentence: str
) -> None:
    source = write_checkpoint(tmp_path / "before", tiny_model(layers=LAYERS))
    with pytest.raises(Infeasible, match=sentence) as told:
        remove_layers(inspect_checkpoint(source), removed, tmp_path / "after")
    assert told.value.kind == "illegal"
    assert not (tmp_path / "after").exists()


GROUP_SIZE = 16
"""Divides the tiny model's 48 and 64 inputs."""

VALUES_PER_WORD = 8
"""4-bit values in an int32."""


def as_words(integers: torch.Tensor) -> torch.Tensor:
    """Pack 0 … 15 along the last dimension, first value in the lowest bits."""
    shifts = torch.arange(VALUES_PER_WORD) * 4
    words = (integers.long().unflatten(-1, (-1, VALUES_PER_WORD)) << shifts).sum(-1)
    return torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)


def quantized(tensors: dict[str, torch.Tensor], form: str) -> dict[str, torch.Tensor]:
    """Every MLP weight of a layer as integers that its values alone decide."""
    found: dict[str, torch.Tensor] = {}
    for name, value in tensors.items():
        module = name.removesuffix(".weight")
        if not name.startswith("model.layers.") or ".mlp." not in name:
            found[name] = value
            continue
        integers = (value * 40).round().long().remainder(16)
        scale = value.unflatten(-1, (-1, GROUP_SIZE)).abs().amax(-1).to(torch.bfloat16)
        zeros = integers[:, ::GROUP_SIZE]
        if form == "compressed-tensors":
            found[f"{module}.weight_packed"] = as_words(integers)
            found[f"{module}.weight_scale"] = scale
            found[f"{module}.weight_zero_point"] = zeros.to(torch.int8)
            found[f"{module}.weight_shape"] = torch.tensor(value.shape)
        else:
            found[f"{module}.qweight"] = as_words(integers.T.contiguous()[:, : len(integers) // 8 * 8])
            found[f"{module}.qzeros"] = as_words(zeros.T.contiguous()[:, : len(zeros) // 8 * 8])
            found[f"{module}.scales"] = scale.T.contiguous()
    return found


COMPRESSED = {
    "quant_method": "compressed-tensors",
    "format": "pack-quantized",
    "ignore": [
        "lm_head",
        "re:.*mtp.*",
        *(f"model.layers.{i}.linear_attn.in_proj_a" for i, kind in enumerate(LAYERS) if "linear" in kind),
        r"re:model\.layers\.4\.self_attn\..*",
    ],
    "config_groups": {
        "group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "group_size": GROUP_SIZE}}
    },
}
AWQ = {
    "quant_method": "awq",
    "bits": 4,
    "group_size": GROUP_SIZE,
    "modules_to_not_convert": ["mtp", "model.layers.0.linear_attn", "model.layers.3.linear_attn.out_proj"],
}


@pytest.mark.parametrize(
    ("form", "config", "lists"),
    [
        (
            "compressed-tensors",
            COMPRESSED,
            {
                "ignore": [
                    "lm_head",
                    "re:.*mtp.*",
                    "model.layers.0.linear_attn.in_proj_a",
                    "model.layers.1.linear_attn.in_proj_a",
                    r"re:model\.layers\.2\.self_attn\..*",
                ]
            },
        ),
        (
            "awq",
            AWQ,
            {
                "modules_to_not_convert": [
                    "mtp",
                    "model.layers.0.linear_attn",
                    "model.layers.1.linear_attn.out_proj",
                ]
            },
        ),
    ],
)
def test_a_pruned_quantized_checkpoint_is_the_pruned_one_quantized(
    tmp_path: Path, form: str, config: dict[str, object], lists: dict[str, list[str]]
) -> None:
    """Weights are made integers one by one, so the two orders must agree to the last bit."""
    removed = (1, 2)
    source = write_checkpoint(tmp_path / "original", tiny_model(layers=LAYERS))
    original = load_file(source / "model.safetensors")
    save_file(quantized(original, form), source / "model.safetensors", metadata={"format": "pt"})
    told = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps(told | {"quantization_config": config}))
    (source / "quantize-report.json").write_text("{}")
    remove_layers(inspect_checkpoint(source), removed, tmp_path / "pruned")

    again = write_checkpoint(tmp_path / "again", tiny_model(layers=LAYERS))
    remove_layers(inspect_checkpoint(again), removed, tmp_path / "pruned-first")
    expected = quantized(load_file(tmp_path / "pruned-first" / "model.safetensors"), form)
    found = load_file(tmp_path / "pruned" / "model.safetensors")
    assert found.keys() == expected.keys()
    assert any(name.startswith("mtp.") for name in found)
    for name, value in expected.items():
        assert found[name].dtype == value.dtype
        assert torch.equal(found[name], value), name
    after = json.loads((tmp_path / "pruned" / "config.json").read_text())
    assert after["quantization_config"] == config | lists
    assert not (tmp_path / "pruned" / "quantize-report.json").exists(), "it tells of other weights"


@pytest.mark.parametrize(
    ("pack", "quantization"), [(pack_quantized, compressed_tensors_config()), (awq_gemm, AWQ_CONFIG)]
)
def test_a_pruned_quantized_checkpoint_loads_as_the_dequantized_model_without_those_layers(
    tmp_path: Path, pack: Callable[..., dict[str, torch.Tensor]], quantization: dict[str, object]
) -> None:
    removed = {0, 4}
    source = write_checkpoint(tmp_path / "before", tiny_model(layers=LAYERS))
    by_hand(source, pack, quantization)
    whole = load_model(inspect_checkpoint(source), torch.float32, torch.device("cpu"))
    remove_layers(inspect_checkpoint(source), sorted(removed), tmp_path / "after")
    pruned = load_model(inspect_checkpoint(tmp_path / "after"), torch.float32, torch.device("cpu"))
    ids = torch.arange(30)[None]
    with torch.inference_mode():
        assert torch.equal(pruned(ids).logits, pruned_by_hand(whole, removed)(ids).logits)
