"""Layers of a model that does not fit are ranked one in memory at a time, as those of the whole are."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM

from experiments.engines.port import Infeasible
from experiments.engines.reference.checkpoint import load_model
from experiments.engines.reference.inspection import inspect_checkpoint
from experiments.stages.pruning import scoring_process
from experiments.stages.pruning.room import Room
from experiments.stages.pruning.scoring_process import answer
from experiments.stages.pruning.streamed_model import streamed_model
from tests.integration.engines.checkpoints import LAYERS, tiny_mixture, tiny_model, write_checkpoint
from tests.integration.engines.packed_checkpoints import by_hand, compressed_tensors_config, pack_quantized

CPU = torch.device("cpu")
DOCUMENTS = [list(range(7 * start, 7 * start + 50)) for start in range(3)]


def held_bytes(model: Qwen3_5ForCausalLM) -> int:
    return sum(each.nbytes for each in model.model.layers.parameters() if each.device.type != "meta")


@pytest.mark.parametrize("form", [{}, {"wrapper": True, "shards": 3}, {"each_expert": True, "shards": 3}])
def test_it_computes_what_the_whole_model_does_and_keeps_no_layer(
    tmp_path: Path, form: dict[str, int]
) -> None:
    model = tiny_mixture(layers=LAYERS) if "each_expert" in form else tiny_model(layers=LAYERS)
    files = inspect_checkpoint(write_checkpoint(tmp_path, model, **form))
    whole, streamed = load_model(files, torch.float32, CPU), streamed_model(files, torch.float32, CPU)
    most = 0

    def look(*_: object) -> None:
        nonlocal most
        most = max(most, held_bytes(streamed))

    for layer in streamed.model.layers:
        layer.register_forward_pre_hook(look)
    ids = torch.tensor(DOCUMENTS)
    with torch.inference_mode():
        assert torch.equal(whole(ids).logits, streamed(ids).logits)
        assert torch.equal(whole(ids).logits, streamed(ids).logits), "and once more"
    assert held_bytes(streamed) == 0
    assert 0 < most <= max(sum(each.nbytes for each in layer.parameters()) for layer in whole.model.layers)


def test_packed_layers_are_unpacked_as_they_are_read(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, tiny_model())
    by_hand(tmp_path, pack_quantized, compressed_tensors_config(4, False), bits=4, symmetric=False)
    files = inspect_checkpoint(tmp_path)
    ids = torch.tensor(DOCUMENTS)
    with torch.inference_mode():
        whole = load_model(files, torch.float32, CPU)(ids).logits
        assert torch.equal(whole, streamed_model(files, torch.float32, CPU)(ids).logits)


def ranked(
    monkeypatch: pytest.MonkeyPatch, folder: Path, criterion: str, *, whole: bool
) -> dict[str, object]:
    """The answer of the process that scores, where the memory is enough for the whole or for one layer."""
    free = 10**12

    def streamed_bytes(room: Room, dtype: str) -> int:
        return 0

    if not whole:
        monkeypatch.setattr(Room, "streamed_bytes_in", streamed_bytes)
        free = 0
    monkeypatch.setattr(scoring_process, "available_bytes", lambda device: free)
    told = answer(
        {
            "checkpoints": {"original": str(folder)},
            "criterion": criterion,
            "documents": DOCUMENTS,
            "layers_removed": 2,
            "restrict": "any",
            "threads": 1,
            "device": "cpu",
            "number_format": "float32",
        }
    )
    found = told["original"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("criterion", ["block_influence", "leave_one_out_kl", "greedy_kl"])
def test_every_criterion_ranks_as_with_the_whole_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, criterion: str
) -> None:
    folder = write_checkpoint(tmp_path, tiny_model(layers=LAYERS), shards=2)
    whole = ranked(monkeypatch, folder, criterion, whole=True)
    assert whole == ranked(monkeypatch, folder, criterion, whole=False)


def test_a_layer_that_lacks_a_tensor_is_told(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path, tiny_model(layers=LAYERS))
    weights = folder / "model.safetensors"
    tensors = load_file(weights)
    del tensors["model.layers.2.mlp.down_proj.weight"]
    save_file(tensors, weights)
    model = streamed_model(inspect_checkpoint(folder), torch.float32, CPU)
    with pytest.raises(Infeasible, match=r"layers\.2.*down_proj"), torch.inference_mode():
        model(torch.tensor(DOCUMENTS))
