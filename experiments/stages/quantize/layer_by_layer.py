"""Quantizes a checkpoint one layer after the other, each in the memory of one; what is finished stays.

A layer is read, the text's hidden states go through it as it is, and its weights are scaled and rounded by
what went into it. Its result and the states for the next layer are written before the next one is read, so
that a process that is killed goes on at the layer at which it was. Imports torch and llmcompressor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from experiments.engines.reference.checkpoint import module_tensor
from experiments.engines.reference.inspection import CheckpointFiles
from experiments.stages.quantize.awq_pairs import mappings_of_layer, rescaled
from experiments.stages.quantize.compression import compress, let_go
from experiments.stages.quantize.finished_layers import FinishedLayers
from experiments.stages.quantize.one_layer import (
    embedded,
    head_model,
    layer_model,
    layer_prefix,
    states_after,
)
from experiments.stages.quantize.packing import packed_layer
from experiments.stages.quantize.plan import PlannedModule, config_of_layer, plan
from experiments.stages.quantize.recipe import QuantizationRecipe

Tell = Callable[[int, int, str], None]
"""Told how many layers are done, of how many, and what was done."""


class LayerByLayer:
    """One quantization: `dtype` and `device` are what it computes in and where, `grid_points` the scales that
    AWQ tries a mapping, `finished` what is done of it."""

    def __init__(
        self,
        files: CheckpointFiles,
        recipe: QuantizationRecipe,
        dtype: torch.dtype,
        device: torch.device,
        grid_points: int | None,
        seed: int,
        finished: FinishedLayers,
    ) -> None:
        self.planned = plan(files, recipe)
        self._files, self._recipe = files, recipe
        self._dtype, self._device = dtype, device
        self._grid_points, self._seed = grid_points, seed
        self._finished = finished
        self._headers = files.headers()
        self._rescaled = sorted(rescaled(files, recipe))
        self._config = config_of_layer(files, recipe)

    def places(self) -> list[int | None]:
        """The layers, and None for the head where it is quantized too."""
        head: list[int | None] = [None] if self._recipe.lm_head else []
        return [*range(len(self._files.layer_types)), *head]

    def run(self, documents: Sequence[Sequence[int]], tell: Tell) -> int:
        """Finish every layer, and the head if it is asked for; returns how many layers were finished before.

        `documents` are the token ids of the calibration text, none for plain rounding. Raises `Infeasible` as
        `layer_model`, `embedded` and `packed_layer`.
        """
        layers = len(self._files.layer_types)
        begin = self._finished.count(layers)
        states: list[Tensor] = []
        if documents and begin < layers:
            kept = self._finished.states(begin)
            if kept is None:
                begin, kept = 0, embedded(self._files, documents, self._dtype)
            states = kept
        if begin:
            tell(begin, layers, f"layers 1 to {begin} of {layers} were finished before")
        for layer in range(begin, layers):
            states = self._finish(layer, states)
            tell(layer + 1, layers, f"quantized layer {layer + 1} of {layers}")
        if self._recipe.lm_head and not self._finished.place(None).is_file():
            self._finish_head()
            tell(layers, layers, "quantized the head")
        return begin

    def _finish(self, layer: int, states: list[Tensor]) -> list[Tensor]:
        """Quantize a layer and keep it; returns the hidden states after it."""
        planned = [module for module in self.planned if module.layer == layer]
        mappings = mappings_of_layer(self._files, self._recipe, layer)
        model = layer_model(self._files, layer, self._dtype, self._device)
        after = states_after(model, states)
        if planned:
            torch.manual_seed(self._seed)
            compress(model, self._config, mappings if states else [], states, self._grid_points)
        tensors, squares = packed_layer(
            model, layer, planned, self._rescaled_of(layer), self._headers, self._recipe
        )
        let_go(model)
        if after and layer + 1 < len(self._files.layer_types):
            self._finished.put_states(layer + 1, after)
        self._finished.put(layer, tensors, squares)
        self._finished.drop_states(layer)
        return after

    def _finish_head(self) -> None:
        head: list[PlannedModule] = [module for module in self.planned if module.layer is None]
        model = head_model(self._files, module_tensor(head[0].source), self._dtype, self._device)
        compress(model, config_of_layer(self._files, self._recipe, head=True), [], [], None)
        tensors, squares = packed_layer(model, None, head, (), self._headers, self._recipe)
        let_go(model)
        self._finished.put(None, tensors, squares)

    def _rescaled_of(self, layer: int) -> list[str]:
        prefix = layer_prefix(layer)
        return [name for name in self._rescaled if module_tensor(name).startswith(prefix)]
