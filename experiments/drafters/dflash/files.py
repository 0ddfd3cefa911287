"""Writes and reads a drafter's folder: `config.json` and bfloat16 safetensors, as vLLM 0.32 loads them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from experiments.drafters.dflash.config import read_shape, to_config
from experiments.drafters.dflash.network import DFlashNetwork
from experiments.drafters.dflash.target_layers import distinct_places, remapped_layer_ids
from experiments.engines.port import Infeasible
from experiments.engines.reference.inspection import CONFIG_FILE, OF_ONE_MODEL

WEIGHT_FILE = "model.safetensors"


def save_drafter(network: DFlashNetwork, folder: Path) -> None:
    """Write configuration and weights (bfloat16) into `folder`; files of that name are replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(to_config(network.shape), indent=2)
    (folder / CONFIG_FILE).write_text(text + "\n", encoding="utf-8")
    tensors = {
        name: tensor.detach().to("cpu", torch.bfloat16).contiguous()
        for name, tensor in sorted(network.state_dict().items())
    }
    save_file(tensors, folder / WEIGHT_FILE, metadata={"format": "pt"})


def read_drafter(folder: Path, dtype: torch.dtype = torch.float32) -> DFlashNetwork:
    """Load a drafter on the CPU, for inference (no gradients).

    Raises:
        Infeasible: kind `checkpoint`, when files are missing or broken, or tensors don't fit the
        configuration.
    """
    shape = read_shape(folder)
    path = folder / WEIGHT_FILE
    if not path.is_file():
        raise Infeasible("checkpoint", f"The drafter at {folder} has no {WEIGHT_FILE}.")
    try:
        tensors = load_file(path)
    except Exception as cause:  # safetensors raises its own error class and plain OS errors
        raise Infeasible("checkpoint", f"The drafter's {path} can't be read: {cause}.") from cause
    with torch.device("meta"):
        network = DFlashNetwork(shape)
    _check_tensors(network, tensors, path)
    network.load_state_dict({name: tensor.to(dtype) for name, tensor in tensors.items()}, assign=True)
    return network.requires_grad_(False)


def _check_tensors(network: DFlashNetwork, tensors: dict[str, Tensor], path: Path) -> None:
    wanted = network.state_dict()
    missing, unknown = sorted(wanted.keys() - tensors.keys()), sorted(tensors.keys() - wanted.keys())
    if missing:
        raise Infeasible(
            "checkpoint", f"{path} lacks {len(missing)} of the drafter's {len(wanted)} tensors: {missing[0]}."
        )
    if unknown:
        raise Infeasible(
            "checkpoint", f"{path} has {len(unknown)} tensors that no DFlash drafter has: {unknown[0]}."
        )
    for name, tensor in wanted.items():
        if tensor.shape != tensors[name].shape:
            raise Infeasible(
                "checkpoint",
                f"{name} in {path} has the shape {tuple(tensors[name].shape)} where {CONFIG_FILE} asks for "
                f"{tuple(tensor.shape)}: {OF_ONE_MODEL}.",
            )


def for_pruned_target(network: DFlashNetwork, kept_layers: Sequence[int]) -> DFlashNetwork:
    """Return the drafter as it reads a target of which only `kept_layers` are left, in order.

    Layers that are gone are replaced as `remapped_layer_ids` says; where two fall on one, their blocks of
    `fc` are added, so that each layer is read once. `save_drafter` writes it for vLLM.
    """
    shape = network.shape
    places, block_places = distinct_places(remapped_layer_ids(shape.target_layer_ids, kept_layers))
    changed = replace(shape, target_layer_ids=places, target_layers=len(kept_layers))
    state = dict(network.state_dict())
    blocks = state["fc.weight"].unflatten(1, (len(block_places), shape.hidden))
    merged = blocks.new_zeros(blocks.shape[0], len(places), shape.hidden)
    merged.index_add_(1, torch.tensor(block_places, device=blocks.device), blocks)
    state["fc.weight"] = merged.flatten(1)
    with torch.device("meta"):
        remapped = DFlashNetwork(changed)
    remapped.load_state_dict(state, assign=True)
    return remapped.requires_grad_(False)
