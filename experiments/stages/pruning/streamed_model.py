"""A model whose layers are read from their files when it is their turn and dropped afterwards. Imports torch.

For ranking the layers of a model that does not fit on the device: embedding, head and one layer at a time are
there. Each forward reads every layer again, from the files or from what the system keeps of them in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM

from experiments.engines.port import Infeasible
from experiments.engines.reference.checkpoint import empty_model, fill_model, module_tensor, read_tensors
from experiments.engines.reference.inspection import CheckpointFiles
from experiments.engines.reference.joined_experts import join_experts
from experiments.engines.reference.packed_layout import PackedModule, packed_modules

LAYERS = "model.layers."


def streamed_model(files: CheckpointFiles, dtype: torch.dtype, device: torch.device) -> Qwen3_5ForCausalLM:
    """The text model for inference, its layers without storage until they are called.

    Raises `Infeasible` as `load_model`, for a layer's own tensors when it is first called.
    """
    model = empty_model(files, dtype)
    fill_model(model, files, dtype, lambda name: not name.startswith(LAYERS))
    for name, child in model.named_children():
        if name != "model":
            nn.Module.to(child, device)
    for name, child in model.model.named_children():
        if name != "layers":
            nn.Module.to(child, device)
    packed = packed_modules(files)
    for index, layer in enumerate(model.model.layers):
        own = _of_layer(files, index)
        parts = [module for module in packed.values() if module.parts[0] in own.tensors]
        _stream(layer, own, parts, f"{LAYERS}{index}.", dtype, device)
    return model


def _stream(
    layer: nn.Module,
    files: CheckpointFiles,
    packed: Sequence[PackedModule],
    prefix: str,
    dtype: torch.dtype,
    device: torch.device,
) -> None:
    def fill(module: nn.Module, args: Any, kwargs: Any) -> None:
        found: dict[str, Tensor] = {
            module_tensor(name): tensor.to(device)
            for name, tensor in read_tensors(files, dtype, files.tensors.__contains__, packed)
        }
        if files.has_experts:
            join_experts(found, files.text_config["num_experts"])
        own = {name.removeprefix(prefix): tensor for name, tensor in found.items()}
        try:
            module.load_state_dict(own, strict=True, assign=True)
        except RuntimeError as cause:
            sentence = " ".join(str(cause).split())
            raise Infeasible(
                "checkpoint", f"{prefix[:-1]} of {files.folder} is not whole: {sentence}"
            ) from None
        nn.Module.requires_grad_(module, False)

    def drop(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        nn.Module.to(module, "meta")

    layer.register_forward_pre_hook(fill, with_kwargs=True)
    layer.register_forward_hook(drop, with_kwargs=True)


def _of_layer(files: CheckpointFiles, index: int) -> CheckpointFiles:
    """The checkpoint as if it held this layer alone."""
    prefix = f"{LAYERS}{index}."
    own = {name: path for name, path in files.tensors.items() if module_tensor(name).startswith(prefix)}
    return replace(files, tensors=own)
