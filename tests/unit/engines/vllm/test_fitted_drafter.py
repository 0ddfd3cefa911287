"""A DFlash drafter beside a pruned target reads the layers that are left, as vLLM is told them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from experiments.drafters.dflash.files import for_pruned_target, read_drafter
from experiments.drafters.packaged import packaged_drafter_path
from experiments.engines.port import Infeasible
from experiments.engines.reference.drafting.order import DraftingOrder, check_drafter
from experiments.engines.reference.inspection import inspect_checkpoint
from experiments.engines.vllm.fitted_drafter import fitted_drafter
from experiments.reference_model.load import reference_model_path
from experiments.stages.pruning.layer_removal import remove_layers


def pruned(removed: Sequence[int], folder: Path) -> Path:
    folder.mkdir()
    remove_layers(inspect_checkpoint(reference_model_path()), removed, folder)
    return folder


def changed(folder: Path, **fields: object) -> Path:
    """The packaged drafter with other fields in its config.json."""
    shutil.copytree(packaged_drafter_path(), folder)
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
    return folder


def test_beside_a_whole_target_it_is_served_as_it_is(tmp_path: Path) -> None:
    drafter = packaged_drafter_path()
    assert fitted_drafter(drafter, reference_model_path(), tmp_path / "kept") == drafter
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize("removed", [(0,), (2, 5), (7, 8), (1, 2, 3, 6)])
def test_beside_a_pruned_one_it_is_what_the_reference_engine_runs(
    removed: tuple[int, ...], tmp_path: Path
) -> None:
    drafter, target = packaged_drafter_path(), pruned(removed, tmp_path / "pruned")
    folder = fitted_drafter(drafter, target, tmp_path / "kept")
    kept = [layer for layer in range(12) if layer not in removed]
    wanted = for_pruned_target(read_drafter(drafter), kept)
    found = read_drafter(folder)
    assert found.shape == wanted.shape
    ours, theirs = found.state_dict(), wanted.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name].bfloat16().float()) for name in ours)
    assert {each.dtype for each in load_file(folder / "model.safetensors").values()} == {torch.bfloat16}
    stamp = (folder / "config.json").stat().st_mtime_ns
    assert fitted_drafter(drafter, target, tmp_path / "kept") == folder, "made once"
    assert (folder / "config.json").stat().st_mtime_ns == stamp


def test_one_that_was_made_for_the_pruned_target_is_served_as_it_is(tmp_path: Path) -> None:
    target = pruned((11,), tmp_path / "pruned")
    drafter = changed(tmp_path / "drafter", num_target_layers=11)
    assert fitted_drafter(drafter, target, tmp_path / "kept") == drafter


def test_one_of_another_depth_is_refused(tmp_path: Path) -> None:
    drafter = changed(tmp_path / "drafter", num_target_layers=32)
    with pytest.raises(Infeasible, match="made for a target of 32 layers and this one has 12") as refused:
        fitted_drafter(drafter, reference_model_path(), tmp_path / "kept")
    assert refused.value.kind == "checkpoint"


def test_a_published_drafter_with_what_only_vllm_runs_is_refused_by_the_reference_engine_alone(
    tmp_path: Path,
) -> None:
    drafter = changed(tmp_path / "drafter", layer_types=["sliding_attention"] * 3, sliding_window=2048)
    order, target = DraftingOrder("dflash", 7, str(drafter)), inspect_checkpoint(reference_model_path())
    with pytest.raises(Infeasible, match="sliding attention"):
        check_drafter(order, target)
    check_drafter(order, target, built_here=False)


def test_a_drafter_with_a_block_of_16_is_asked_for_all_that_it_fills(tmp_path: Path) -> None:
    order = DraftingOrder("dflash", 15, str(changed(tmp_path / "drafter", block_size=16)))
    check_drafter(order, inspect_checkpoint(reference_model_path()), built_here=False)


@pytest.mark.parametrize(
    ("fields", "draft_tokens", "sentence"),
    [
        (
            {"hidden_size": 2560},
            1,
            "has the hidden size 2560 and the target 128: it was made for another model",
        ),
        ({"vocab_size": 248320}, 1, "has a vocabulary of 248320 tokens"),
        ({"block_size": 4}, 5, r"drafts 3 tokens at once, so it may be 1 to 3\."),
        ({"block_size": 16}, 16, r"drafts 15 tokens at once, so it may be 1 to 15\."),
    ],
)
def test_one_of_another_model_or_with_too_short_a_block_is_refused_before_anything_is_loaded(
    fields: dict[str, object], draft_tokens: int, sentence: str, tmp_path: Path
) -> None:
    order = DraftingOrder("dflash", draft_tokens, str(changed(tmp_path / "drafter", **fields)))
    for built_here in (True, False):
        with pytest.raises(Infeasible, match=sentence):
            check_drafter(order, inspect_checkpoint(reference_model_path()), built_here=built_here)
