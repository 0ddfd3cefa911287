"""What a job on a shape is asked, and how its stages change it."""

import json
from pathlib import Path

import pytest

from configs.models import load_model_profile
from experiments.engines.port import Infeasible
from experiments.engines.reference.shape import read_profile
from experiments.measurement.plan import Workload
from experiments.measurement.prompts import load_tokenizer
from experiments.reference_model.load import reference_model_path
from experiments.shapes.folder import shape_in, write_shape
from experiments.shapes.material import RandomMaterial
from experiments.shapes.stages import ShapePruning, ShapeQuantization, removed_layers
from experiments.space.configuration import Configuration
from experiments.stages.pruning.choosing import Choice

LAYERS = ("linear_attention", "linear_attention", "linear_attention", "full_attention") * 4
WORKLOAD = Workload(prompt_tokens=32, new_tokens=4)


@pytest.fixture
def shape(tmp_path: Path) -> Path:
    return write_shape(load_model_profile("qwen3.5-9b"), Configuration.of({}), tmp_path / "shape")


def test_prompts_are_random_words_that_a_text_is_read_as_by_seed_pair_and_block(shape: Path) -> None:
    material = RandomMaterial(shape, "cpu", 7)
    one = material.requests(WORKLOAD, 7, 0, 0)
    assert one == RandomMaterial(shape, "cpu", 7).requests(WORKLOAD, 7, 0, 0)
    others = [material.requests(WORKLOAD, *key) for key in ((8, 0, 0), (7, 1, 0), (7, 0, 1))]
    begins = [each.prompt_ids[:8] for requests in (one, *others) for each in requests]
    assert len(set(begins)) == len(begins)
    assert all(len(each.prompt_ids) == 32 for each in one)
    tokenizer = load_tokenizer(reference_model_path())
    for each in one:
        assert tuple(tokenizer.encode(tokenizer.decode(list(each.prompt_ids))).ids) == each.prompt_ids


def test_nothing_can_be_scored_or_checked(shape: Path) -> None:
    material = RandomMaterial(shape, "cpu", 7)
    for ask in (material.documents, material.tasks, material.drafting_prompts, material.identity):
        with pytest.raises(Infeasible, match="no quality to measure"):
            ask(WORKLOAD)


@pytest.mark.parametrize(
    ("count", "restrict", "gone"),
    [(1, "any", (15,)), (4, "any", (12, 13, 14, 15)), (2, "gdn", (13, 14)), (2, "attention", (11, 15))],
)
def test_layers_go_from_the_end_in_turn_of_kinds(count: int, restrict: str, gone: tuple[int, ...]) -> None:
    assert removed_layers(LAYERS, Choice(count, restrict)) == gone


def test_more_layers_than_may_go_are_refused() -> None:
    with pytest.raises(Infeasible, match="one of each kind must stay"):
        removed_layers(LAYERS, Choice(4, "attention"))


def test_a_pruned_and_quantized_shape_has_fewer_layers_and_a_quantization_config(
    shape: Path, tmp_path: Path
) -> None:
    asked = Configuration.of(
        {
            "pruning.method": "depth",
            "pruning.layers_removed": 4,
            "pruning.restrict": "any",
            "quantization.method": "awq",
            "quantization.group_size": 128,
        }
    )
    first, second = ShapePruning(), ShapeQuantization()
    assert first.asked(asked)
    assert second.asked(asked)
    assert first.place(asked) < second.place(asked)
    pruned, both = tmp_path / "pruned", tmp_path / "both"
    report = first.build(asked, shape, pruned)
    second.build(asked, pruned, both)
    assert len(report["removed"]) == 4  # type: ignore[arg-type]
    assert read_profile(both).layers == read_profile(shape).layers - 4
    found = shape_in(both)
    assert found is not None
    assert found.stored == "compressed-tensors W4 g128 symmetric"
    config = json.loads((both / "config.json").read_text())
    told = config.get("quantization_config") or config["text_config"]["quantization_config"]
    assert told["quant_method"] == "compressed-tensors"


def test_calibration_makes_no_other_shape(shape: Path) -> None:
    stage = ShapeQuantization()
    keys = {
        stage.key(
            Configuration.of({"quantization.method": "awq", "quantization.corpus": corpus}), shape, (), "f"
        ).digest
        for corpus in ("raw", "instruct")
    }
    assert len(keys) == 1
