"""A shape brings a DFlash drafter of the sizes of a published one, which has no weights either."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from agent.tables.grid import load_grid
from configs.models import load_model_profile
from experiments.drafters.dflash.config import read_shape
from experiments.drafters.packaged import packaged_drafter_path
from experiments.engines.port import Infeasible
from experiments.engines.reference.drafting.order import DraftingOrder, drafter_source
from experiments.engines.reference.stored_parameters import stored_parameters
from experiments.engines.vllm.checked_order import check_dummy_drafting, checked_order
from experiments.engines.vllm.fitted_drafter import fitted_drafter
from experiments.engines.vllm.needed_memory import parts_needed
from experiments.engines.vllm.order import DRAFT_TOKENS_MAX
from experiments.executors.checkpoint_there import shape_texts, write_shape_texts
from experiments.shapes.drafter import drafter_for
from experiments.shapes.folder import shape_files, shape_in, write_shape
from experiments.shapes.marker import DRAFTER_FOLDER, drafter_of_shape
from experiments.shapes.stages import ShapePruning, ShapeQuantization
from experiments.space.configuration import Configuration, KnobValue

SIZES = ("qwen3.5-0.8b", "qwen3.5-4b", "qwen3.5-9b", "qwen3.5-27b", "qwen3.5-35b-a3b", "reference")
DRAFTS: dict[str, KnobValue] = {
    "drafting.method": "dflash",
    "drafting.draft_tokens": 7,
    "drafting.drafter": "packaged",
}


def shape(folder: Path, model: str = "qwen3.5-9b") -> Path:
    return write_shape(load_model_profile(model), Configuration.of({}), folder)


def drafter_in(folder: Path) -> Path:
    drafter = drafter_of_shape(folder)
    assert drafter is not None
    return drafter


def check(folder: Path, draft_tokens: int, drafter: str = "packaged", method: str = "dflash") -> None:
    found = shape_in(folder)
    assert found is not None
    check_dummy_drafting(DraftingOrder(method, draft_tokens, drafter), found, shape_files(folder))


@pytest.mark.parametrize(("model", "billions"), [("qwen3.5-4b", 0.63), ("qwen3.5-9b", 1.29)])
def test_it_has_as_many_weights_as_the_published_one(model: str, billions: float, tmp_path: Path) -> None:
    """FACTS §4: about 0.6 B beside 4B, 1.3 B beside 9B."""
    stored = stored_parameters(drafter_in(shape(tmp_path, model)))
    assert stored is not None
    assert stored.parameters / 1e9 == pytest.approx(billions, abs=0.01)


@pytest.mark.parametrize("model", SIZES)
def test_its_config_is_one_that_fits_the_shape_and_fills_a_block_of_sixteen(
    model: str, tmp_path: Path
) -> None:
    folder, profile = shape(tmp_path, model), load_model_profile(model)
    found = read_shape(drafter_in(folder))
    assert found == drafter_for(profile)
    assert (found.hidden, found.vocabulary) == (profile.hidden, profile.vocabulary)
    assert found.kv_heads * found.head_size == profile.attention_kv_heads * profile.attention_head_dim
    assert found.target_layers == profile.layers > found.target_layer_ids[-1]
    for draft_tokens in (1, 7, DRAFT_TOKENS_MAX):
        check(folder, draft_tokens)


def test_more_drafts_than_its_block_has_are_refused_with_how_many_it_has(tmp_path: Path) -> None:
    with pytest.raises(Infeasible, match="drafts 15 tokens at once, so it may be 1 to 15") as refused:
        check(shape(tmp_path), 16)
    assert refused.value.kind == "illegal"


def test_weights_are_counted_as_a_drafter_s_files_have_them() -> None:
    stored = stored_parameters(packaged_drafter_path())
    assert stored is not None
    assert read_shape(packaged_drafter_path()).parameters == stored.parameters


def test_vllm_is_ordered_to_make_up_both_models_and_to_set_acceptance(tmp_path: Path) -> None:
    folder = shape(tmp_path)
    order, _ = checked_order(Configuration.of({**DRAFTS, "drafting.draft_tokens": 15}), folder, "cpu")
    assert order.arguments["load_format"] == "dummy"
    assert order.arguments["speculative_config"] == {
        "method": "dflash",
        "num_speculative_tokens": 15,
        "model": str(drafter_in(folder)),
        "rejection_sample_method": "synthetic",
        "synthetic_acceptance_length": 8.5,
    }
    assert fitted_drafter(drafter_in(folder), folder, tmp_path / "kept") == drafter_in(folder)


def test_a_pruned_or_quantized_shape_brings_one_that_reads_its_layers(tmp_path: Path) -> None:
    whole = shape(tmp_path / "whole")
    pruning = Configuration.of({"pruning.method": "depth", "pruning.layers_removed": 8})
    ShapePruning().build(pruning, whole, tmp_path / "pruned")
    found = read_shape(drafter_in(tmp_path / "pruned"))
    assert (found.target_layers, found.target_layer_ids[-1]) == (24, 22)
    assert fitted_drafter(drafter_in(tmp_path / "pruned"), tmp_path / "pruned", tmp_path / "kept") == (
        drafter_in(tmp_path / "pruned")
    )
    check(tmp_path / "pruned", 15)
    quantization = Configuration.of({"quantization.method": "rtn", "quantization.group_size": 128})
    ShapeQuantization().build(quantization, whole, tmp_path / "quantized")
    assert read_shape(drafter_in(tmp_path / "quantized")) == read_shape(drafter_in(whole))
    contents = [
        drafter_source(DraftingOrder("dflash", 7, "packaged"), each).fingerprint
        for each in (whole, tmp_path / "quantized", tmp_path / "pruned")
    ]
    assert contents[0] == contents[1] != contents[2]


def test_its_weights_and_its_cache_are_counted_before_a_load(tmp_path: Path) -> None:
    folder = shape(tmp_path)
    needed = {
        method: {
            part.name: part.bytes
            for part in parts_needed(Configuration.of(knobs), folder, 2048, 141_000_000_000)
        }
        for method, knobs in (("none", {}), ("dflash", DRAFTS))
    }
    more = sum(needed["dflash"].values()) - sum(needed["none"].values())
    assert needed["dflash"]["drafter"] == 2 * 1_291_904_512
    assert more > needed["dflash"]["drafter"]


def test_the_grid_of_the_page_on_shapes_times_a_step_by_drafter(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "shapes.md").read_text(encoding="utf-8")
    [grid] = re.findall(r"```yaml\n(.+?)```", page, re.DOTALL)
    (tmp_path / "drafts.yaml").write_text(grid)
    loads = load_grid(tmp_path / "drafts.yaml").loads
    drafted = [
        (each.configuration["drafting.method"], each.configuration.get("drafting.draft_tokens"))
        for each in loads
    ]
    assert drafted == [("none", None), ("mtp", 3), ("dflash", 7), ("dflash", 15)]
    folder = shape(tmp_path / "shape")
    for each in loads:
        checked_order(each.configuration, folder, "cpu")


def test_it_goes_to_another_machine_with_its_shape(tmp_path: Path) -> None:
    folder = shape(tmp_path / "here")
    there = write_shape_texts(shape_texts(folder), tmp_path / "there")
    assert read_shape(drafter_in(there)) == read_shape(drafter_in(folder))
    assert shape_in(drafter_in(there)) == shape_in(drafter_in(folder))
    assert shape_in(there) == shape_in(folder)


def test_a_shape_of_before_goes_there_too_and_brings_none(tmp_path: Path) -> None:
    folder = shape(tmp_path / "here")
    shutil.rmtree(folder / DRAFTER_FOLDER)
    there = write_shape_texts(shape_texts(folder), tmp_path / "there")
    assert shape_in(there) == shape_in(folder)
    assert drafter_of_shape(there) is None


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"hidden_size": 2560}, "has the hidden size 2560 and the target 4096"),
        ({"vocab_size": 248_321}, "has a vocabulary of 248321 tokens and its target one of 248320"),
        ({"block_size": 8}, "drafts 7 tokens at once, so it may be 1 to 7"),
        ({"block_size": None}, "block_size is None, no whole number"),
        ({"architectures": ["Qwen3ForCausalLM"]}, "not DFlashDraftModel"),
    ],
)
def test_another_drafter_that_a_shape_is_given_must_fit_it(
    changes: dict[str, object], why: str, tmp_path: Path
) -> None:
    folder = shape(tmp_path / "shape")
    mine = shutil.copytree(drafter_in(folder), tmp_path / "mine")
    check(folder, 15, str(mine))
    config = json.loads((mine / "config.json").read_text())
    (mine / "config.json").write_text(json.dumps(config | changes))
    with pytest.raises(Infeasible, match=why):
        check(folder, 15, str(mine))


def test_a_shape_that_brings_none_is_not_drafted_for_by_the_packaged_model_s(tmp_path: Path) -> None:
    folder = shape(tmp_path)
    shutil.rmtree(folder / DRAFTER_FOLDER)
    for method in ("dflash", "draft_model"):
        with pytest.raises(Infeasible, match="a vocabulary of 4096 tokens and its target one of 248320"):
            check(folder, 7, method=method)
