"""Packs the weights of a layer for which scales were found. Imports torch and compressed-tensors.

What AWQ rescaled is given in the type it was stored in.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from compressed_tensors.compressors import BaseCompressor
from torch import Tensor
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM

from experiments.engines.port import Infeasible
from experiments.engines.reference.checkpoint import module_tensor
from experiments.engines.reference.packed_layout import PACK_QUANTIZED, PackedModule
from experiments.engines.reference.packed_tensors import dequantized
from experiments.stages.quantize.finished_layers import Squares
from experiments.stages.quantize.modules import HEAD
from experiments.stages.quantize.one_layer import LAYER, layer_prefix
from experiments.stages.quantize.plan import PlannedModule
from experiments.stages.quantize.recipe import QuantizationRecipe

STORED_DTYPES: Mapping[str, torch.dtype] = {
    "BF16": torch.bfloat16,
    "F16": torch.float16,
    "F32": torch.float32,
}
"""Types of dense weights by their names in a header."""

ROWS_AT_ONCE = 4096
"""Rows of a matrix whose squares are summed together, in double: 84 MB each of a 4B's."""


def packed_layer(
    model: Qwen3_5ForCausalLM,
    layer: int | None,
    planned: Sequence[PlannedModule],
    rescaled: Collection[str],
    headers: Mapping[str, Mapping[str, Any]],
    recipe: QuantizationRecipe,
) -> tuple[dict[str, Tensor], dict[str, Squares]]:
    """What of a layer (None: of the head) is stored otherwise than before, under its stored names: packed
    weights and rescaled tensors; and the sums of squares by kind of module.

    `headers` tell the type of each tensor as it was stored.

    Raises:
        Infeasible: kind `build_failed`, when a weight is not finite; `unsupported` for another type.
    """
    squares: dict[str, Squares] = {}
    written: dict[str, Tensor] = {}
    for module in planned:
        found = model.get_submodule(_here(module.module, layer))
        dtype = _dtype(module.source, headers)
        parts, sums = _packed(module, found, recipe, dtype)
        written |= parts
        squares[module.kind] = squares.get(module.kind, Squares()) + sums
    state = model.state_dict() if rescaled else {}
    for name in rescaled:
        tensor = _finite(name, state[_here(module_tensor(name), layer)])
        written[name] = tensor.to(_dtype(name, headers)).cpu()
    return {name: tensor.contiguous() for name, tensor in written.items()}, squares


def _here(name: str, layer: int | None) -> str:
    """The name in the model of one layer of what the text model calls `name`."""
    return HEAD if layer is None else LAYER + name.removeprefix(layer_prefix(layer))


def _dtype(name: str, headers: Mapping[str, Mapping[str, Any]]) -> torch.dtype:
    told = str(headers[name]["dtype"])
    if told not in STORED_DTYPES:
        raise Infeasible("unsupported", f"{name} is stored as {told}, from which nothing is quantized.")
    return STORED_DTYPES[told]


def _packed(
    planned: PlannedModule, module: torch.nn.Module, recipe: QuantizationRecipe, dtype: torch.dtype
) -> tuple[dict[str, Tensor], Squares]:
    """The packed tensors of one module under their stored names, and what rounding changed.

    Integers are rounded with the scale in the type it is stored in, so that rounding the scale costs nothing
    more.
    """
    found = {name: tensor.detach() for name, tensor in module.named_parameters(recurse=False)}
    if "weight_scale" not in found:
        raise RuntimeError(f"llmcompressor left out {planned.stored}")
    weight = _finite(planned.weight, found["weight"])
    local = {"weight": weight, "weight_scale": found["weight_scale"].to(dtype).float()}
    if not recipe.symmetric:
        local["weight_zero_point"] = found["weight_zero_point"]
    compressor = BaseCompressor.get_value_from_registry(PACK_QUANTIZED)
    parts: dict[str, Tensor] = compressor.compress(local, module.quantization_scheme)
    parts["weight_scale"] = parts["weight_scale"].to(dtype)
    parts = {end: tensor.cpu() for end, tensor in parts.items()}
    layout = PackedModule(
        planned.stored,
        PACK_QUANTIZED,
        planned.bits,
        recipe.group_size,
        recipe.symmetric,
        planned.outputs,
        planned.inputs,
        tuple(parts),
    )
    again = _finite(planned.weight, dequantized(layout, parts))
    return {f"{planned.stored}.{end}": tensor for end, tensor in parts.items()}, _squares(again, weight.cpu())


def _squares(again: Tensor, weight: Tensor) -> Squares:
    """Sums over two matrices `[outputs, inputs]`, some rows at a time: a head's in double are gigabytes."""
    sums = Squares()
    for first in range(0, len(weight), ROWS_AT_ONCE):
        rows = slice(first, first + ROWS_AT_ONCE)
        exact = weight[rows].double()
        sums += Squares(float((again[rows].double() - exact).square().sum()), float(exact.square().sum()))
    return sums


def _finite(name: str, tensor: Tensor) -> Tensor:
    if not bool(tensor.isfinite().all()):
        raise Infeasible("build_failed", f"Quantizing gave values of {name} that are not finite.")
    return tensor
