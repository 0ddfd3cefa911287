"""The drafter beside its target: context that grows, steps back, loading, what does not fit."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM

from experiments.drafters.dflash.acceptance import drafts_everywhere
from experiments.drafters.dflash.blocks import read_target
from experiments.drafters.dflash.drafter import SMALLEST_CAPACITY, DFlashDrafter
from experiments.drafters.dflash.files import for_pruned_target, read_drafter, save_drafter
from experiments.drafters.dflash.network import DFlashNetwork, initialise
from experiments.drafters.dflash.shape import DFlashShape
from experiments.drafters.port import HiddenStateDrafter, load_drafter
from experiments.engines.port import Infeasible
from experiments.reference_model.architecture import TINY_SHAPE, text_config

LAYER_TENSORS = (
    "input_layernorm.weight",
    "mlp.down_proj.weight",
    "mlp.gate_proj.weight",
    "mlp.up_proj.weight",
    "post_attention_layernorm.weight",
    "self_attn.k_norm.weight",
    "self_attn.k_proj.weight",
    "self_attn.o_proj.weight",
    "self_attn.q_norm.weight",
    "self_attn.q_proj.weight",
    "self_attn.v_proj.weight",
)
"""As `DFlashQwen3ForCausalLM.load_weights` of vLLM 0.32 expects them: without the prefix `model.`."""

TOKENS = 48


@pytest.fixture
def folder(tiny_network: DFlashNetwork, tmp_path: Path) -> Path:
    save_drafter(tiny_network, tmp_path / "drafter")
    return tmp_path / "drafter"


@pytest.fixture
def drafter(folder: Path, tiny_target: Qwen3_5ForCausalLM) -> DFlashDrafter:
    return DFlashDrafter.load(folder, tiny_target)


@pytest.fixture(scope="module")
def ids() -> torch.Tensor:
    return torch.randint(1, 4096, (TOKENS,), generator=torch.Generator().manual_seed(4))


@pytest.fixture
def features(ids: torch.Tensor, drafter: DFlashDrafter, tiny_target: Qwen3_5ForCausalLM) -> torch.Tensor:
    return read_target(tiny_target, drafter.target_layer_ids, ids[None]).features[0]


def test_growing_context_drafts_what_one_pass_over_everything_drafts(
    drafter: DFlashDrafter,
    folder: Path,
    ids: torch.Tensor,
    features: torch.Tensor,
    tiny_target: Qwen3_5ForCausalLM,
) -> None:
    at_once = drafts_everywhere(read_drafter(folder), tiny_target, ids)
    known = 0
    for position in (7, 8, 11, 12, 20, 40):
        drafted = drafter.propose(int(ids[position]), features[known:position], position)
        assert drafted == at_once[position]
        known = position
    assert len(drafted) == drafter.block_tokens - 1


def test_kept_keys_and_values_are_those_computed_anew(
    drafter: DFlashDrafter, ids: torch.Tensor, features: torch.Tensor
) -> None:
    for first, position in ((0, 9), (9, 10), (10, 33)):
        drafter.propose(int(ids[position]), features[first:position], position)
    anew = drafter._network.context(features[None, :33], torch.arange(33)[None])
    for kept, fresh in zip(drafter._kept.so_far(), anew, strict=True):
        torch.testing.assert_close(kept, fresh)


def test_a_step_back_replaces_what_was_kept(
    drafter: DFlashDrafter,
    folder: Path,
    ids: torch.Tensor,
    features: torch.Tensor,
    tiny_target: Qwen3_5ForCausalLM,
) -> None:
    drafter.propose(5, torch.randn_like(features[:30]), 30)
    stepped = drafter.propose(int(ids[20]), features[:20], 20)
    assert stepped == DFlashDrafter.load(folder, tiny_target).propose(int(ids[20]), features[:20], 20)
    further = drafter.propose(int(ids[24]), features[18:24], 24)
    assert further == drafts_everywhere(read_drafter(folder), tiny_target, ids)[24]


def test_a_reset_forgets_the_sequence(
    drafter: DFlashDrafter, ids: torch.Tensor, features: torch.Tensor
) -> None:
    first = drafter.propose(int(ids[10]), features[:10], 10)
    drafter.propose(int(ids[30]), features[10:30], 30)
    drafter.reset()
    with pytest.raises(ValueError, match="only 0 were given"):
        drafter.propose(3, features[30:31], 31)
    assert drafter.propose(int(ids[10]), features[:10], 10) == first


def test_context_grows_beyond_its_first_room(drafter: DFlashDrafter, features: torch.Tensor) -> None:
    many = features.repeat(SMALLEST_CAPACITY // TOKENS + 2, 1)
    at_once = drafter.propose(3, many, len(many))
    drafter.reset()
    drafter.propose(3, many[:50], 50)
    assert drafter.propose(3, many[50:], len(many)) == at_once


@pytest.mark.parametrize(
    ("rows", "width", "position", "sentence"),
    [(4, 5, 4, "shape"), (4, None, 9, "begin at position 5"), (4, None, 3, "begin at position -1")],
)
def test_features_that_do_not_fit_are_refused(
    drafter: DFlashDrafter, rows: int, width: int | None, position: int, sentence: str
) -> None:
    features = torch.zeros(rows, width or 3 * TINY_SHAPE.hidden)
    with pytest.raises(ValueError, match=sentence):
        drafter.propose(1, features, position)


def test_the_port_loads_it_for_the_target(folder: Path, tiny_target: Qwen3_5ForCausalLM) -> None:
    drafter: HiddenStateDrafter = load_drafter(folder, tiny_target)
    assert drafter.target_layer_ids == (0, 2, 3)
    assert drafter.block_tokens == 4


def test_it_works_in_the_targets_dtype(folder: Path, ids: torch.Tensor) -> None:
    torch.manual_seed(2)
    target = Qwen3_5ForCausalLM(text_config(TINY_SHAPE)).bfloat16().eval()
    drafter = DFlashDrafter.load(folder, target)
    features = read_target(target, drafter.target_layer_ids, ids[None]).features[0]
    assert features.dtype == torch.bfloat16
    assert len(drafter.propose(1, features, TOKENS)) == 3


def test_the_saved_tensors_have_the_names_and_dtype_that_vllm_loads(folder: Path) -> None:
    expected = {"fc.weight", "hidden_norm.weight", "norm.weight"}
    expected |= {f"layers.{layer}.{name}" for layer in range(2) for name in LAYER_TENSORS}
    with safe_open(folder / "model.safetensors", framework="pt") as tensors:
        assert set(tensors.keys()) == expected
        assert {tensors.get_tensor(name).dtype for name in expected} == {torch.bfloat16}
        assert tensors.get_slice("fc.weight").get_shape() == [TINY_SHAPE.hidden, 3 * TINY_SHAPE.hidden]


def test_what_is_loaded_and_saved_again_is_the_same_file(folder: Path, tmp_path: Path) -> None:
    save_drafter(read_drafter(folder), tmp_path / "again")
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()


def test_a_drafter_of_a_pruned_target_reads_each_layer_once_and_computes_the_same(
    tiny_network: DFlashNetwork,
) -> None:
    pruned = for_pruned_target(tiny_network, kept_layers=(0, 1, 3))
    assert pruned.shape.target_layer_ids == (0, 1, 2)
    folded = for_pruned_target(tiny_network, kept_layers=(0, 3))
    assert folded.shape.target_layer_ids == (0, 1)
    hidden = TINY_SHAPE.hidden
    first, last = torch.randn(2, 1, 5, hidden)
    whole = tiny_network.fc(torch.cat([first, first, last], dim=-1))
    torch.testing.assert_close(folded.fc(torch.cat([first, last], dim=-1)), whole)


def test_it_drafts_beside_a_pruned_target_when_the_kept_layers_are_given(
    folder: Path, ids: torch.Tensor
) -> None:
    target = Qwen3_5ForCausalLM(text_config(replace(TINY_SHAPE, layers=4))).eval()
    target.model.layers = target.model.layers[1:]
    target.config.num_hidden_layers = 3
    with pytest.raises(Infeasible, match="the layers that were kept must be given"):
        DFlashDrafter.load(folder, target)
    drafter = DFlashDrafter.load(folder, target, kept_layers=(1, 2, 3))
    assert drafter.target_layer_ids == (0, 1, 2)
    with pytest.raises(Infeasible, match="made for a target of 4 layers and this one has 3"):
        DFlashDrafter.load(folder, target, kept_layers=(0, 1, 2, 3))


def test_a_drafter_made_for_the_pruned_target_is_not_remapped(folder: Path) -> None:
    resave(folder, target_layer_ids=(0, 2), target_layers=3)
    target = Qwen3_5ForCausalLM(text_config(TINY_SHAPE)).eval()
    target.model.layers = target.model.layers[1:]
    target.config.num_hidden_layers = 3
    assert DFlashDrafter.load(folder, target, kept_layers=(0, 2, 3)).target_layer_ids == (0, 2)


def test_kept_layers_that_its_target_never_had_are_refused(
    folder: Path, tiny_target: Qwen3_5ForCausalLM
) -> None:
    resave(folder, target_layers=5)
    with pytest.raises(Infeasible, match="made for a target of 5 layers; of this one, layer 7 was kept"):
        DFlashDrafter.load(folder, tiny_target, kept_layers=(0, 1, 6, 7))


def resave(folder: Path, **changes: int | tuple[int, ...]) -> None:
    network = DFlashNetwork(replace(read_drafter(folder).shape, **changes))  # type: ignore[arg-type]
    initialise(network, 1)
    save_drafter(network, folder)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"vocabulary": 4095}, "a vocabulary of 4095 tokens and the target 4096"),
        ({"hidden": 64}, "the hidden size 64 and the target 32"),
        ({"target_layer_ids": (0, 4), "target_layers": 0}, "reads layer 4 of a target that has 4 layers"),
        ({"target_layers": 12}, "made for a target of 12 layers and this one has 4"),
    ],
)
def test_a_drafter_of_another_target_is_refused(
    folder: Path, tiny_target: Qwen3_5ForCausalLM, changes: dict[str, int], sentence: str
) -> None:
    resave(folder, **changes)
    with pytest.raises(Infeasible, match=sentence) as refused:
        load_drafter(folder, tiny_target)
    assert refused.value.kind == "checkpoint"


def no_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def cut_short(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def a_tensor_less(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors["fc.weight"]
    save_file(tensors, folder / "model.safetensors")


def a_tensor_more(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    save_file(tensors | {"lm_head.weight": torch.zeros(2, 2)}, folder / "model.safetensors")


def another_width(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"intermediate_size": 40}))


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (no_weights, "has no model.safetensors"),
        (cut_short, "can't be read"),
        (a_tensor_less, "lacks 1 of the drafter's 25 tensors: fc.weight"),
        (a_tensor_more, "1 tensors that no DFlash drafter has: lm_head.weight"),
        (
            another_width,
            r"has the shape \(48, 32\) where config.json asks for \(40, 32\): put config.json and the",
        ),
    ],
)
def test_broken_files_are_refused_in_a_sentence(
    folder: Path, tiny_target: Qwen3_5ForCausalLM, damage: Callable[[Path], None], sentence: str
) -> None:
    damage(folder)
    with pytest.raises(Infeasible, match=sentence):
        load_drafter(folder, tiny_target)


def test_shapes_that_contradict_themselves_are_refused() -> None:
    with pytest.raises(ValueError, match="can't share"):
        DFlashShape(64, 16, 24, 2, 3, 2, 8, 4, 0, (0,), 4, 1e4, 128)
