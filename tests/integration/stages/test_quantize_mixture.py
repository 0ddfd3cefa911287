"""A Mixture of Experts quantized by the real library: every expert apart, its router scaled with it, and each
gets back its own, whichever way they were stored."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from experiments.engines.reference.checkpoint import load_model
from experiments.engines.reference.expected_tensors import check_tensors
from experiments.engines.reference.inspection import inspect_checkpoint
from experiments.engines.reference.packed_layout import packed_modules
from experiments.stages.pruning.layer_removal import remove_layers
from experiments.stages.quantize.recipe import QuantizationRecipe
from experiments.stages.quantize.stage import quantize
from tests.integration.stages.quantizable import CPU, quantizable, quantizable_mixture
from tests.integration.stages.test_quantize import TEXT, logits, relative_distance

pytestmark = pytest.mark.slow

LAYERS = ["linear_attention", "full_attention", "linear_attention"]
EXPERTS = 8
EIGHT = QuantizationRecipe("awq", 8, 32, True, 8, False, "none")
FOUR = QuantizationRecipe("rtn", 4, 32, False, 8, False, "edges")
PROJECTIONS = ("gate_proj", "up_proj", "down_proj")

Result = tuple[Path, Path, Mapping[str, Any]]
"""The checkpoint before and after, and the report."""


@pytest.fixture(scope="module")
def awq(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Each expert in tensors of its own, in a wrapper and two files; 8 bits, so fine that only a mistake in
    the scaling could change the model."""
    folder = tmp_path_factory.mktemp("awq")
    before = quantizable(
        folder / "before", quantizable_mixture(LAYERS), wrapper=True, shards=2, each_expert=True
    )
    return before, folder / "after", quantize(before, folder / "after", EIGHT, TEXT)


@pytest.fixture(scope="module")
def rtn(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """All experts of a layer in one tensor; 4 bits with zero points, the first and the last layer left as
    they are, so that experts are apart in one layer and together in the others."""
    folder = tmp_path_factory.mktemp("rtn")
    before = quantizable(folder / "before", quantizable_mixture(LAYERS))
    return before, folder / "after", quantize(before, folder / "after", FOUR)


def values(folder: Path) -> dict[str, torch.Tensor]:
    state: dict[str, torch.Tensor] = load_model(inspect_checkpoint(folder), torch.float32, CPU).state_dict()
    return state


def tensors(folder: Path) -> dict[str, torch.Tensor]:
    return {name: value for path in folder.glob("*.safetensors") for name, value in load_file(path).items()}


def test_the_router_is_scaled_with_the_experts_and_the_model_stays_what_it_was(awq: Result) -> None:
    before, after, _ = awq
    assert relative_distance(logits(after), logits(before)) < 0.05
    old, new = tensors(before), tensors(after)
    moved = {
        name.split(".", 4)[-1] for name in old.keys() & new.keys() if not torch.equal(old[name], new[name])
    }
    always = {"mlp.gate.weight", "mlp.shared_expert_gate.weight", "post_attention_layernorm.weight"}
    assert moved >= always
    assert moved <= always | {
        "input_layernorm.weight",
        "linear_attn.in_proj_a.weight",
        "linear_attn.in_proj_b.weight",
    }
    assert old.keys() - new.keys() == {
        name for name in old if "proj" in name and "in_proj_a" not in name and "in_proj_b" not in name
    } - {"mtp.layers.0.mlp.up_proj.weight"}, "what was packed, and nothing else, is gone"


def test_each_expert_is_stored_apart_as_engines_read_it(awq: Result) -> None:
    _, after, report = awq
    check_tensors(inspect_checkpoint(after))
    packed = packed_modules(inspect_checkpoint(after))
    for layer in range(len(LAYERS)):
        mlp = f"model.language_model.layers.{layer}.mlp"
        for projection in PROJECTIONS:
            sizes = (64, 32) if projection == "down_proj" else (32, 64)
            for number in range(EXPERTS):
                found = packed[f"{mlp}.experts.{number}.{projection}"]
                assert (found.bits, found.outputs, found.inputs) == (8, *sizes)
            assert f"{mlp}.shared_expert.{projection}" in packed
    assert report["modules"] == len(packed) == len(LAYERS) * 3 * (EXPERTS + 1) + 3 + 4 + 3
    index = json.loads((after / "model.safetensors.index.json").read_text())["weight_map"]
    assert set(index) == set(tensors(after))
    errors = report["relative_weight_error"]
    assert {
        f"mlp.{of}.{each}" for of in ("experts", "shared_expert") for each in PROJECTIONS
    } <= errors.keys()
    assert all(0 < error < 0.01 for error in errors.values())
    parts = report["step_bytes_by_part"]
    assert parts["after"]["experts"] == pytest.approx(parts["before"]["experts"] * 8.5 / 16)


def test_every_expert_gets_back_its_own_weights(rtn: Result) -> None:
    before, after, _ = rtn
    check_tensors(inspect_checkpoint(after))
    stored = tensors(after).keys()
    assert "model.layers.0.mlp.experts.gate_up_proj" in stored
    assert "model.layers.1.mlp.experts.7.up_proj.weight_packed" in stored
    assert not stored & {f"model.layers.1.mlp.experts.{each}" for each in ("gate_up_proj", "down_proj")}
    old, new = values(before), values(after)
    assert old.keys() == new.keys()
    stays = (
        "norm.weight",
        "gate.weight",
        "conv1d.weight",
        "in_proj_a.weight",
        "in_proj_b.weight",
        "A_log",
        "dt_bias",
    )
    for name, value in old.items():
        if ".layers.1." not in name or name.endswith(stays):
            assert torch.equal(new[name], value), name
        else:
            assert 0.01 < relative_distance(new[name], value) < 0.2, name
    for kind in ("gate_up_proj", "down_proj"):  # a whole layer's would hide two that changed places
        for number in range(EXPERTS):
            name = f"model.layers.1.mlp.experts.{kind}"
            assert relative_distance(new[name][number], old[name][number]) < 0.2


def test_layers_are_taken_out_of_one_that_is_packed(awq: Result, tmp_path: Path) -> None:
    remove_layers(inspect_checkpoint(awq[1]), (0,), tmp_path)
    found, whole = values(tmp_path), values(awq[1])
    name = "mlp.experts.down_proj"
    torch.testing.assert_close(found[f"model.layers.0.{name}"], whole[f"model.layers.1.{name}"])
