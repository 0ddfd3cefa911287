"""Runs llmcompressor on a loaded model: scales found, nothing packed yet. Imports torch and llmcompressor.

Runs in the environment that has llmcompressor (`environment.py`), in a process of its own. The model is one
layer (`one_layer.py`): AWQ measures what goes into a layer of the model as it was, so that a layer needs
nothing of those before it but their hidden states.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, cast

import torch
from compressed_tensors.offload import remove_dispatch
from llmcompressor import oneshot
from llmcompressor.modifiers.quantization import QuantizationModifier
from llmcompressor.modifiers.transform.awq import AWQMapping, AWQModifier
from llmcompressor.pipelines.cache import IntermediatesCache
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM

from experiments.stages.quantize.recipe import kept_bytes, kept_in_host


def compress(
    model: Qwen3_5ForCausalLM,
    config: dict[str, Any],
    mappings: Sequence[tuple[str, Sequence[str]]],
    states: Sequence[Tensor],
    grid_points: int | None,
) -> None:
    """Attach scales and zero points to the modules that `config` targets; with mappings, AWQ goes before.

    `config` is a quantization configuration of compressed-tensors, `states` are the hidden states that go
    into the model, in batches, `grid_points` the scales that AWQ tries for each mapping. The model's
    configuration must name the folder it came from.
    """
    recipe: list[object] = [
        QuantizationModifier(config_groups=config["config_groups"], ignore=config["ignore"])
    ]
    # Each expert is measured on the tokens that are sent to it; all on all would be many times the work.
    asked: dict[str, object] = {"moe_calibrate_all_experts": False}
    if mappings:
        awq = AWQModifier(
            mappings=[AWQMapping(smooth, list(balance)) for smooth, balance in mappings],
            n_grid=grid_points,
            offload_device=_kept_on(model, states),
        )
        recipe.insert(0, awq)
        batches = [{"inputs_embeds": batch} for batch in states]  # to the device one by one, as they are read
        asked["dataset"] = DataLoader(cast("Dataset[dict[str, Tensor]]", batches), batch_size=None)
    if not torch.accelerator.is_available():
        # Pinning is for copies to an accelerator; without one torch refuses it, and AWQ asks all the same.
        IntermediatesCache.pin_memory = _do_not_pin
    # The processor would only tokenize, and there is no text here; any object stands for it.
    oneshot(model=model, recipe=recipe, processor=object(), **asked)


def _kept_on(model: Qwen3_5ForCausalLM, states: Sequence[Tensor]) -> torch.device | None:
    """Where AWQ keeps what goes into the layer's modules: with the layer (None), or in the host's memory
    where that would fill the GPU's: a layer then takes longer (docs/quantization.md)."""
    if model.device.type != "cuda":
        return None
    tokens = sum(batch.shape[0] * batch.shape[1] for batch in states)
    kept = kept_bytes(tokens, model.config.to_dict(), model.dtype.itemsize)
    free, _ = torch.cuda.mem_get_info(model.device)
    at_hand = torch.cuda.memory_reserved(model.device) - torch.cuda.memory_allocated(model.device)
    said = kept_in_host(kept, free + at_hand)
    if said is None:
        return None
    print(said, file=sys.stderr)
    return torch.device("cpu")


def let_go(model: Qwen3_5ForCausalLM) -> None:
    """Free the weights of a model that was compressed, whoever still holds the model.

    torch.fx remembers for good what it wrapped to trace a model for AWQ, and so each layer would stay in
    memory to the end of the process (torch 2.13, llmcompressor 0.14).
    """
    remove_dispatch(model)  # its parameters are looked after by llmcompressor and can't be replaced before
    nn.Module.to(model, "meta")


def _do_not_pin(self: object, batch_index: int, input_names: list[str] | None = None) -> None:
    """In place of `IntermediatesCache.pin_memory`."""
