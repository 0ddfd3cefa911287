"""Runs llmcompressor on a loaded model: scales found, nothing packed yet. Imports torch and llmcompressor.

Runs in the environment that has llmcompressor (`environment.py`), in a process of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, cast

import torch
from llmcompressor import oneshot
from llmcompressor.modifiers.quantization import QuantizationModifier
from llmcompressor.modifiers.transform.awq import AWQMapping, AWQModifier
from llmcompressor.pipelines.cache import IntermediatesCache
from torch.utils.data import DataLoader, Dataset
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM

BATCH_TOKENS = 2048
"""Tokens of one pass through a layer: larger passes only take more memory (measured on two cores)."""


def compress(
    model: Qwen3_5ForCausalLM,
    config: dict[str, Any],
    mappings: Sequence[tuple[str, Sequence[str]]] | None,
    documents: Sequence[Sequence[int]],
    grid_points: int | None,
) -> None:
    """Attach scales and zero points to the modules that `config` targets; with mappings, AWQ goes before.

    `config` is a quantization configuration of compressed-tensors, `documents` are token ids, `grid_points`
    the scales that AWQ tries for each mapping. The model's configuration must name the folder it came from.
    """
    recipe: list[object] = [
        QuantizationModifier(config_groups=config["config_groups"], ignore=config["ignore"])
    ]
    asked: dict[str, object] = {}
    if mappings is not None:
        awq = AWQModifier(
            mappings=[AWQMapping(smooth, list(balance)) for smooth, balance in mappings], n_grid=grid_points
        )
        recipe.insert(0, awq)
        batches = cast("Dataset[dict[str, torch.Tensor]]", list(_batches(documents, model.device)))
        asked["dataset"] = DataLoader(batches, batch_size=None)
    if not torch.accelerator.is_available():
        # Pinning is for copies to an accelerator; without one torch refuses it, and AWQ asks all the same.
        IntermediatesCache.pin_memory = _do_not_pin
    # The processor would only tokenize, and the documents are token ids; any object stands for it.
    oneshot(model=model, recipe=recipe, processor=object(), **asked)


def _batches(documents: Sequence[Sequence[int]], device: torch.device) -> Iterator[dict[str, torch.Tensor]]:
    """Documents of equal length together, so that none is padded; the order within a length stays."""
    for length, alike in groupby(sorted(documents, key=len), key=len):
        together = list(alike)
        rows = max(1, BATCH_TOKENS // length)
        for start in range(0, len(together), rows):
            ids = [list(document) for document in together[start : start + rows]]
            yield {"input_ids": torch.tensor(ids, device=device)}


def _do_not_pin(self: object, batch_index: int, input_names: list[str] | None = None) -> None:
    """In place of `IntermediatesCache.pin_memory`."""
