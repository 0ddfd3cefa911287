"""Names and shapes of a text model's tensors are those of transformers' own model, and a checkpoint is held
to them without being loaded."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from configs.weight_formats import BFLOAT16
from experiments.engines.port import Infeasible
from experiments.engines.reference.checkpoint import load_model
from experiments.engines.reference.expected_tensors import (
    check_served_tensors,
    check_tensors,
    expected_tensors,
    weight_scales,
)
from experiments.engines.reference.inspection import CheckpointFiles, inspect_checkpoint
from experiments.engines.reference.shape import read_profile
from experiments.engines.reference.stored_weights import by_profile_part, bytes_by_part, step_bytes_by_part
from experiments.reference_model.load import reference_model_path
from tests.integration.engines.checkpoints import (
    Sizes,
    each_expert_alone,
    take_layer_apart,
    tiny_mixture,
    tiny_model,
    write_checkpoint,
)
from tests.integration.engines.packed_checkpoints import (
    by_hand,
    compressed_tensors_config,
    pack_quantized,
    write_gptq,
)

SIZES = [
    Sizes(),
    Sizes(hidden=64, intermediate=96, heads=4, kv_heads=2, linear_key_heads=2, linear_value_heads=4),
]


@pytest.mark.parametrize("sizes", SIZES)
def test_they_are_those_of_transformers(tmp_path: Path, sizes: Sizes) -> None:
    model = tiny_model(sizes=sizes)
    profile = read_profile(write_checkpoint(tmp_path, model))
    found = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    assert dict(expected_tensors(profile.model_copy(update={"tied_embeddings": False}))) == found


@pytest.mark.parametrize("each_expert", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
def test_those_of_a_mixture_of_experts_are_those_of_transformers(
    tmp_path: Path, sizes: Sizes, each_expert: bool
) -> None:
    model = tiny_mixture(sizes=sizes)
    profile = read_profile(write_checkpoint(tmp_path, model, each_expert=each_expert))
    tensors = each_expert_alone(model.state_dict()) if each_expert else model.state_dict()
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    own_head = profile.model_copy(update={"tied_embeddings": False})
    assert dict(expected_tensors(own_head, range(own_head.layers) if each_expert else ())) == found


def test_each_expert_s_tensors_are_named_as_transformers_saves_them(tmp_path: Path) -> None:
    model = tiny_mixture()
    model.save_pretrained(tmp_path)
    saved = load_file(tmp_path / "model.safetensors")
    named = {name for name in each_expert_alone(model.state_dict()) if name != "lm_head.weight"}
    assert saved.keys() == named
    check_tensors(inspect_checkpoint(tmp_path))


@pytest.mark.parametrize("form", [{}, {"shards": 3}, {"wrapper": True, "shards": 2}])
@pytest.mark.parametrize("each_expert", [False, True])
def test_whole_mixtures_of_experts_pass(tmp_path: Path, form: dict[str, int], each_expert: bool) -> None:
    folder = write_checkpoint(tmp_path, tiny_mixture(), each_expert=each_expert, **form)
    check_tensors(inspect_checkpoint(folder))
    check_served_tensors(inspect_checkpoint(folder))


def test_experts_may_be_apart_in_one_layer_and_together_in_another(tmp_path: Path) -> None:
    folder = take_layer_apart(write_checkpoint(tmp_path, tiny_mixture()), 2)
    check_tensors(inspect_checkpoint(folder))
    tensors = load_file(folder / "model.safetensors")
    _without(tensors, lost := "model.layers.2.mlp.experts.3.down_proj.weight")
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(Infeasible, match=f"lacks 1 of the .*{lost}"):
        check_tensors(inspect_checkpoint(folder))


@pytest.mark.parametrize("of_experts", [False, True])
def test_the_config_of_a_mixture_beside_dense_weights_and_the_reverse_is_told_in_a_sentence(
    tmp_path: Path, of_experts: bool
) -> None:
    models = {True: tiny_mixture(), False: tiny_model()}
    for mixture, model in models.items():
        write_checkpoint(tmp_path / str(mixture), model)
    folder = tmp_path / str(not of_experts)
    shutil.copyfile(tmp_path / str(of_experts) / "config.json", folder / "config.json")
    with pytest.raises(
        Infeasible, match=r"lacks .* tensors of its text model, first model.layers.0.mlp"
    ) as told:
        check_tensors(inspect_checkpoint(folder))
    assert told.value.kind == "checkpoint"


@pytest.mark.parametrize(
    ("each_expert", "lost"),
    [(True, "model.layers.2.mlp.experts.7.up_proj.weight"), (False, "model.layers.2.mlp.experts.down_proj")],
)
def test_an_expert_that_lacks_is_named(tmp_path: Path, each_expert: bool, lost: str) -> None:
    folder = write_checkpoint(tmp_path, tiny_mixture(), each_expert=each_expert)
    tensors = load_file(folder / "model.safetensors")
    _without(tensors, lost)
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(Infeasible, match="lacks 1 of the") as told:
        check_tensors(inspect_checkpoint(folder))
    assert lost in told.value.cause


@pytest.mark.parametrize("form", [{}, {"shards": 3}, {"wrapper": True, "shards": 2}])
def test_whole_checkpoints_pass(tmp_path: Path, form: dict[str, int]) -> None:
    check_tensors(inspect_checkpoint(write_checkpoint(tmp_path, tiny_model(), **form)))
    check_tensors(inspect_checkpoint(reference_model_path()))


def _without(tensors: dict[str, torch.Tensor], name: str) -> None:
    del tensors[name]


def _cut(tensors: dict[str, torch.Tensor], name: str) -> None:
    tensors[name] = tensors[name][:-1].clone()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_without, "lacks 1 of the"),
        (_cut, r"has the shape \(47, 64\) where .*: put config.json and the weights of one model there"),
    ],
    ids=["a tensor lacks", "a tensor is too small"],
)
def test_what_lacks_or_does_not_fit_is_named(
    tmp_path: Path, damage: Callable[[dict[str, torch.Tensor], str], None], words: str
) -> None:
    folder = write_checkpoint(tmp_path, tiny_model())
    weights = folder / "model.safetensors"
    tensors = load_file(weights)
    damage(tensors, "model.layers.2.mlp.down_proj.weight")
    save_file(tensors, weights)
    with pytest.raises(Infeasible, match=words) as told:
        check_tensors(inspect_checkpoint(folder))
    assert told.value.kind == "checkpoint"
    assert r"model.layers.2.mlp.down_proj.weight" in told.value.cause


def test_a_shard_that_is_not_there_is_named(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path, tiny_model(), shards=3)
    (folder / "model-00002-of-00003.safetensors").unlink()
    with pytest.raises(Infeasible, match="has no model-00002-of-00003") as told:
        inspect_checkpoint(folder)
    assert told.value.kind == "checkpoint"


def test_of_a_layout_that_is_not_read_each_weight_or_something_in_its_place_is_there(tmp_path: Path) -> None:
    folder = write_gptq(reference_model_path(), tmp_path / "gptq")
    with pytest.raises(Infeasible, match="quantized by 'gptq'; autoinfer reads") as told:
        check_tensors(inspect_checkpoint(folder))
    assert told.value.kind == "unsupported"
    check_served_tensors(inspect_checkpoint(folder))
    tensors = load_file(folder / "model.safetensors")
    cut = {name: each for name, each in tensors.items() if not name.startswith("model.layers.5.mlp.up_proj")}
    save_file(cut, folder / "model.safetensors")
    with pytest.raises(Infeasible, match="lacks 1 of the") as told:
        check_served_tensors(inspect_checkpoint(folder))
    assert told.value.kind == "checkpoint"
    assert "model.layers.5.mlp.up_proj.weight" in told.value.cause


def test_of_a_layout_that_is_read_shapes_are_held_too(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path, tiny_model())
    tensors = load_file(folder / "model.safetensors")
    _cut(tensors, "model.norm.weight")
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(Infeasible, match="has the shape"):
        check_served_tensors(inspect_checkpoint(folder))


@pytest.mark.parametrize("each_expert", [False, True])
def test_a_step_of_a_mixture_of_experts_reads_the_experts_of_one_token(
    tmp_path: Path, each_expert: bool
) -> None:
    folder = write_checkpoint(tmp_path, tiny_mixture(), dtype=torch.bfloat16, each_expert=each_expert)
    files, profile = inspect_checkpoint(folder), read_profile(folder)
    stored, read = bytes_by_part(files), step_bytes_by_part(files)
    assert read["experts"] == stored["experts"] * 2 // 8
    assert {part: size for part, size in read.items() if part in ("gdn", "mlp", "norm")} == {
        part: stored[part] for part in ("gdn", "mlp", "norm")
    }
    assert sum(read.values()) == profile.weight_bytes_per_step(BFLOAT16)
    sizes = {name: end - start for name, (start, end) in _offsets(files).items()}
    by_part = {part.name: 2 * part.parameters for part in profile.parts if part.kind != "mtp"}
    assert by_profile_part(sizes) == {name: size for name, size in by_part.items() if size}


def _offsets(files: CheckpointFiles) -> dict[str, tuple[int, int]]:
    return {name: entry["data_offsets"] for name, entry in files.headers().items()}


def test_experts_that_are_packed_one_by_one_are_read_and_one_that_lacks_is_told(tmp_path: Path) -> None:
    sizes = Sizes(hidden=64, intermediate=64, heads=2, linear_value_heads=2)
    folder = write_checkpoint(tmp_path, tiny_mixture(sizes=sizes), each_expert=True)
    wanted = by_hand(folder, pack_quantized, compressed_tensors_config(8, False), bits=8, symmetric=False)
    files = inspect_checkpoint(folder)
    assert any(name.endswith("experts.7.down_proj.weight_packed") for name in files.tensors)
    check_served_tensors(files)
    joined = load_model(files, torch.float32, torch.device("cpu")).state_dict()
    for name, value in each_expert_alone(joined).items():
        assert name not in wanted or torch.equal(value, wanted[name]), name
    assert weight_scales(files) >= {"model.layers.0.mlp.experts.7.up_proj.weight_scale"}
    tensors = load_file(folder / "model.safetensors")
    _without(tensors, "model.layers.1.mlp.experts.0.up_proj.weight_packed")
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(Infeasible, match="lacks 1 of"):
        check_served_tensors(inspect_checkpoint(folder))
