"""What is quantized, what is refused before anything runs, and what must be there afterwards."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from experiments.engines.port import Infeasible
from experiments.engines.reference.inspection import CheckpointFiles, inspect_checkpoint
from experiments.engines.reference.packed_layout import packed_modules
from experiments.stages.quantize.awq_pairs import awq_mappings, rescaled
from experiments.stages.quantize.carried import check_carried
from experiments.stages.quantize.plan import PlannedModule, ignored, plan, quantization_config
from experiments.stages.quantize.recipe import QuantizationRecipe
from experiments.stages.quantize.stage import CalibrationText, quantize
from tests.integration.engines.checkpoints import LAYERS, tiny_model, write_checkpoint
from tests.integration.engines.packed_checkpoints import by_hand, compressed_tensors_config, pack_quantized
from tests.integration.stages.quantizable import quantizable, quantizable_mixture, quantizable_model


def recipe(**changes: object) -> QuantizationRecipe:
    fields = {
        "method": "awq",
        "bits": 4,
        "group_size": 32,
        "symmetric": True,
        "out_proj_bits": 4,
        "lm_head": False,
        "keep": "none",
    }
    return QuantizationRecipe(**(fields | changes))  # type: ignore[arg-type]


def checkpoint(folder: Path, layers: list[str] | None = None) -> CheckpointFiles:
    return inspect_checkpoint(quantizable(folder, quantizable_model(layers)))


def mixture(folder: Path, layers: list[str] | None = None, *, each_expert: bool = False) -> CheckpointFiles:
    return inspect_checkpoint(quantizable(folder, quantizable_mixture(layers), each_expert=each_expert))


def matching(files: CheckpointFiles, entries: list[str]) -> set[str]:
    """Modules of the text model that entries of `targets` or `ignore` name, as engines match them."""
    modules = {name.rpartition(".")[0] for name in files.tensors} | {"lm_head"}
    return {
        name
        for name in modules
        if any(
            re.match(entry.removeprefix("re:"), name) if entry.startswith("re:") else entry == name
            for entry in entries
        )
    }


@pytest.mark.parametrize("keep", ["none", "attention", "edges"])
@pytest.mark.parametrize("lm_head", [False, True])
@pytest.mark.parametrize("out_proj_bits", [4, 8])
@pytest.mark.parametrize("experts", [False, True])
def test_what_is_written_names_just_the_modules_that_are_quantized(
    tmp_path: Path, keep: str, lm_head: bool, out_proj_bits: int, experts: bool
) -> None:
    files = mixture(tmp_path, each_expert=True) if experts else checkpoint(tmp_path)
    asked = recipe(keep=keep, lm_head=lm_head, out_proj_bits=out_proj_bits)
    planned = plan(files, asked)
    config = quantization_config(files, asked)
    left_out = matching(files, list(ignored(files, asked)))
    named: dict[str, int] = {}
    groups = config["config_groups"]
    assert isinstance(groups, dict)
    for group in groups.values():
        for name in matching(files, group["targets"]) - left_out:
            assert name not in named, "no module is in two groups"
            named[name] = group["weights"]["num_bits"]
    assert named == {module.stored: module.bits for module in planned}
    dense = {
        name.removesuffix(".weight") for name, entry in files.headers().items() if len(entry["shape"]) > 1
    }
    assert dense - named.keys() - left_out <= {"model.embed_tokens"}, (
        "an engine finds each linear layer named"
    )
    numbers = [entry for entry in config["ignore"] if re.search(r"layers\W+\d", entry)]  # type: ignore[union-attr, arg-type]
    assert bool(numbers) == (keep == "edges")


@pytest.mark.parametrize(
    "layers",
    [LAYERS, ["linear_attention"] * 3, ["full_attention"] * 2, ["full_attention", "linear_attention"]],
)
@pytest.mark.parametrize("keep", ["none", "attention", "edges"])
def test_awq_pairs_follow_the_kinds_of_layers_that_are_left(
    tmp_path: Path, layers: list[str], keep: str
) -> None:
    files = checkpoint(tmp_path, layers)
    asked = recipe(keep=keep)
    if keep == "edges" and len(layers) < 3:
        with pytest.raises(Infeasible, match=r"keep=edges leaves none of 2 layers") as told:
            plan(files, asked)
        assert told.value.kind == "illegal"
        return
    quantized = {module.stored for module in plan(files, asked)}
    for smooth, balance in awq_mappings(files, asked):
        smoothed = matching(files, [smooth])
        for entry in balance:
            assert len(matching(files, [entry])) == len(smoothed), "one of each kind a layer"
        assert matching(files, balance) & quantized
        assert not any(name.endswith(("o_proj", "out_proj")) for name in matching(files, balance))
    ends = {name.split(".", 3)[-1] for name in rescaled(files, asked)}
    assert "linear_attn.in_proj_b.weight" in ends or "linear_attention" not in layers[1:]
    assert not any(name.startswith("mtp.") for name in rescaled(files, asked))
    assert rescaled(files, recipe(method="rtn")) == frozenset()


def test_experts_that_are_joined_are_planned_as_those_that_are_apart(tmp_path: Path) -> None:
    apart = plan(mixture(tmp_path / "apart", each_expert=True), recipe())
    joined = plan(mixture(tmp_path / "joined"), recipe())
    assert [replace(each, source="") for each in joined] == [replace(each, source="") for each in apart]
    assert {each.replaced.split(".mlp.")[1] for each in joined if ".experts." in each.module} == {
        "experts.gate_up_proj",
        "experts.down_proj",
    }
    assert all(each.replaced == each.weight for each in apart)


@pytest.mark.parametrize("each_expert", [False, True])
@pytest.mark.parametrize("keep", ["none", "edges"])
def test_awq_scales_a_norm_for_the_router_first_and_each_expert_for_itself(
    tmp_path: Path, each_expert: bool, keep: str
) -> None:
    files = mixture(tmp_path, each_expert=each_expert)
    layers = range(len(LAYERS)) if keep == "none" else range(1, len(LAYERS) - 1)
    pairs = dict(awq_mappings(files, recipe(keep=keep)))
    (norm,) = (each for each in pairs if "post_attention" in each)
    # what AWQ knows of the norm's output it measures at the first of these, which every token goes through
    assert pairs[norm][0].endswith(r"\.mlp\.gate$")
    of_experts = next(each for each in pairs if r"experts\.\d+\.up_proj" in each)
    apart = mixture(tmp_path / "apart", each_expert=True)
    assert matching(apart, [of_experts]) == {
        f"model.layers.{layer}.mlp.experts.{number}.up_proj" for layer in layers for number in range(8)
    }
    assert matching(apart, pairs[norm]) == {
        f"model.layers.{layer}.mlp.{name}"
        for layer in layers
        for name in (
            *("gate", "shared_expert_gate", "shared_expert.gate_proj", "shared_expert.up_proj"),
            *(f"experts.{number}.{part}_proj" for number in range(8) for part in ("gate", "up")),
        )
    }
    ends = {name.split(".", 3)[-1] for name in rescaled(files, recipe(keep=keep)) if ".mlp." in name}
    assert ends == {"mlp.gate.weight", "mlp.shared_expert_gate.weight"}


def test_a_mixture_s_router_and_gate_are_named_as_left_out_and_a_dense_model_s_are_not(
    tmp_path: Path,
) -> None:
    routers = {r"re:.*mlp\.gate$", r"re:.*mlp\.shared_expert_gate$"}
    assert routers <= set(ignored(mixture(tmp_path / "experts"), recipe()))
    assert not routers & set(ignored(checkpoint(tmp_path / "dense"), recipe()))


@pytest.mark.parametrize(
    ("name", "shape", "sentence"),
    [
        ("gate_up_proj", (8, 63, 64), r"\(8, 63, 64\) and \(8, 64, 32\), which are not those of 8 experts"),
        ("gate_up_proj", (7, 64, 64), r"\(7, 64, 64\) and .* not those of 8 experts"),
        ("down_proj", (7, 64, 32), r"and \(7, 64, 32\), which are not those of 8 experts"),
        ("down_proj", (8, 64, 16), r"not those of 8 experts"),
        ("down_proj", (64, 32), r"no tensor of experts model\.layers\.1\.mlp\.experts\.down_proj"),
        ("down_proj", None, r"no tensor of experts model\.layers\.1\.mlp\.experts\.down_proj"),
        ("gate_up_proj", None, r"no tensor of experts model\.layers\.1\.mlp\.experts\.gate_up_proj: put "),
    ],
)
def test_experts_of_other_sizes_than_they_are_told_of_are_refused(
    tmp_path: Path, name: str, shape: tuple[int, ...] | None, sentence: str
) -> None:
    files = mixture(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors[f"model.layers.1.mlp.experts.{name}"]
    if shape is not None:
        tensors[f"model.layers.1.mlp.experts.{name}"] = torch.zeros(shape)
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(Infeasible, match=sentence) as told:
        plan(inspect_checkpoint(files.folder), recipe())
    assert told.value.kind == "checkpoint"


def test_groups_that_do_not_divide_what_goes_into_an_expert_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        Infeasible, match=r"64 does not divide the 32 inputs of .*mlp\.experts\.0\.down_proj"
    ) as t:
        plan(mixture(tmp_path), recipe(group_size=64))
    assert t.value.kind == "illegal"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"group_size": 64}, r"group_size=64 does not divide the 96 inputs of model.layers.0.mlp.down_proj"),
        ({"group_size": 128}, r"does not divide the 64 inputs of .*in_proj_qkv .*those of 29 more modules"),
    ],
)
def test_a_group_size_that_does_not_divide_is_told_with_the_module(
    tmp_path: Path, changes: dict[str, object], sentence: str
) -> None:
    with pytest.raises(Infeasible, match=sentence) as told:
        plan(checkpoint(tmp_path), recipe(**changes))
    assert told.value.kind == "illegal"


def test_a_checkpoint_that_is_quantized_already_is_refused(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, tiny_model())
    by_hand(tmp_path, pack_quantized, compressed_tensors_config())
    with pytest.raises(Infeasible, match="quantized already") as told:
        quantize(tmp_path, tmp_path / "after", recipe(method="rtn"))
    assert told.value.kind == "illegal"


def test_a_layer_without_its_weights_is_refused(tmp_path: Path) -> None:
    files = checkpoint(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(Infeasible, match=r"no matrix model\.layers\.1\.mlp\.up_proj\.weight") as told:
        plan(inspect_checkpoint(files.folder), recipe())
    assert told.value.kind == "checkpoint"


@pytest.mark.parametrize("documents", [[], [[1, 2], []]])
def test_awq_without_text_is_refused(tmp_path: Path, documents: list[list[int]]) -> None:
    checkpoint(tmp_path)
    with pytest.raises(Infeasible, match="AWQ needs calibration documents"):
        quantize(tmp_path, tmp_path / "after", recipe(), CalibrationText(documents, "f", "none"))


class TestCarried:
    """A checkpoint packed by hand stands for a quantizer's output, damaged in one way each."""

    def pair(self, folder: Path) -> tuple[CheckpointFiles, Path, tuple[PlannedModule, ...]]:
        before = inspect_checkpoint(write_checkpoint(folder / "before", tiny_model()))
        after = write_checkpoint(folder / "after", tiny_model())
        by_hand(after, pack_quantized, compressed_tensors_config())
        planned = tuple(
            PlannedModule(name, name, "any", module.bits, module.outputs, module.inputs, module.weight)
            for name, module in packed_modules(inspect_checkpoint(after)).items()
        )
        return before, after, planned

    def test_what_is_whole_passes(self, tmp_path: Path) -> None:
        before, after, planned = self.pair(tmp_path)
        check_carried(before, inspect_checkpoint(after), planned, ())

    @pytest.mark.parametrize(
        ("damage", "sentence"),
        [
            ("dropped", r"lost in .*: mtp\.fc\.weight, mtp\.layers\.0\.mlp\.up_proj\.weight\."),
            ("added", r"new in .*: model\.extra\."),
            ("changed", r"changed in .*: mtp\.fc\.weight\."),
            ("another type", r"changed in .*: model\.norm\.weight\."),
            ("not packed", r"not packed in .*: model\.layers\.1\.mlp\.up_proj\."),
        ],
    )
    def test_what_is_lost_new_or_changed_is_named(self, tmp_path: Path, damage: str, sentence: str) -> None:
        before, after, planned = self.pair(tmp_path)
        tensors = load_file(after / "model.safetensors")
        at = "model.layers.1.mlp.up_proj"
        match damage:
            case "dropped":
                tensors = {name: value for name, value in tensors.items() if not name.startswith("mtp.")}
            case "added":
                tensors["model.extra"] = torch.ones(1)
            case "changed":
                tensors["mtp.fc.weight"][1, 2] += 1
            case "another type":
                tensors["model.norm.weight"] = tensors["model.norm.weight"].to(torch.bfloat16)
            case "not packed":
                tensors = {name: value for name, value in tensors.items() if not name.startswith(at)}
                tensors[f"{at}.weight"] = load_file(before.folder / "model.safetensors")[f"{at}.weight"]
        save_file(tensors, after / "model.safetensors")
        with pytest.raises(Infeasible, match=sentence) as told:
            check_carried(before, inspect_checkpoint(after), planned, ())
        assert told.value.kind == "build_failed"

    def test_what_was_to_be_rescaled_may_change_its_values_alone(self, tmp_path: Path) -> None:
        before, after, planned = self.pair(tmp_path)
        tensors = load_file(after / "model.safetensors")
        tensors["model.norm.weight"] += 1
        save_file(tensors, after / "model.safetensors")
        check_carried(before, inspect_checkpoint(after), planned, {"model.norm.weight"})


def test_the_configuration_stays_but_for_the_quantization(tmp_path: Path) -> None:
    files = checkpoint(tmp_path)
    before = json.loads((tmp_path / "config.json").read_text())
    assert "quantization_config" not in before
    told = quantization_config(files, recipe(out_proj_bits=8, symmetric=False))
    assert json.loads(json.dumps(told)) == told
    assert {"mtp", r"re:.*mtp.*", "lm_head"} <= set(told["ignore"])  # type: ignore[arg-type]
