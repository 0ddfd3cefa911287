"""Writes the weight files of a quantized model: packed where scales were found, else as they were.

Names, order and the files stay those of the original. What AWQ rescaled is written in the type it was stored
in; all else (the MTP head, a vision tower, embeddings) is copied. Imports torch and compressed-tensors.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from compressed_tensors.compressors import BaseCompressor
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM

from experiments.engines.port import Infeasible
from experiments.engines.reference.checkpoint import module_tensor
from experiments.engines.reference.inspection import INDEX_FILE, CheckpointFiles
from experiments.engines.reference.packed_layout import PACK_QUANTIZED, PackedModule
from experiments.engines.reference.packed_tensors import dequantized
from experiments.stages.quantize.plan import PlannedModule
from experiments.stages.quantize.recipe import QuantizationRecipe

ERROR_DIGITS = 6
"""Digits after the point of a relative error in the report."""


@dataclass
class _Squares:
    """Sums over weights: of squared errors and of squares."""

    error: float = 0.0
    weight: float = 0.0


def write_weights(
    files: CheckpointFiles,
    model: Qwen3_5ForCausalLM,
    recipe: QuantizationRecipe,
    planned: Sequence[PlannedModule],
    rescaled: Collection[str],
    out_dir: Path,
) -> dict[str, float]:
    """Write every weight file of the checkpoint anew into `out_dir`.

    Returns the relative error of the weights by kind of module: ‖W − Ŵ‖ / ‖W‖ over all of the kind, with W
    after AWQ's scaling.

    Raises:
        Infeasible: kind `build_failed`, when a weight is not finite.
    """
    out_dir.mkdir(parents=True, exist_ok=True)
    by_weight = {module.weight: module for module in planned}
    squares: defaultdict[str, _Squares] = defaultdict(_Squares)
    state = model.state_dict()
    weight_map: dict[str, str] = {}
    total_bytes = 0
    new = [module for module in planned if module.weight not in files.tensors]  # a head that was tied
    for path in files.weight_files:
        written: dict[str, Tensor] = {}
        with safe_open(path, framework="pt") as stored:
            metadata = stored.metadata()
            for name in stored.keys():  # noqa: SIM118  (no mapping)
                tensor = stored.get_tensor(name)
                if name in by_weight:
                    module = by_weight[name]
                    written |= _packed(module, model, recipe, tensor.dtype, squares[module.kind])
                elif name in rescaled:
                    written[name] = _finite(name, state[module_tensor(name)]).to(tensor.dtype).cpu()
                else:
                    written[name] = tensor
                if name.endswith("embed_tokens.weight"):
                    for module in new:
                        written |= _packed(module, model, recipe, tensor.dtype, squares[module.kind])
        written = {name: tensor.contiguous() for name, tensor in written.items()}
        save_file(written, out_dir / path.name, metadata=metadata)
        weight_map |= dict.fromkeys(written, path.name)
        total_bytes += sum(tensor.nbytes for tensor in written.values())
    if (files.folder / INDEX_FILE).is_file():
        index = {"metadata": {"total_size": total_bytes}, "weight_map": dict(sorted(weight_map.items()))}
        (out_dir / INDEX_FILE).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")
    return {kind: round((sums.error / sums.weight) ** 0.5, ERROR_DIGITS) for kind, sums in squares.items()}


def _packed(
    planned: PlannedModule,
    model: Qwen3_5ForCausalLM,
    recipe: QuantizationRecipe,
    dtype: torch.dtype,
    sums: _Squares,
) -> dict[str, Tensor]:
    """The packed tensors of one module under their stored names; adds to the sums of its kind.

    Integers are rounded with the scale in the type it is stored in, so that rounding the scale costs nothing
    more.
    """
    module = model.get_submodule(planned.module)
    found = {name: tensor.detach() for name, tensor in module.named_parameters(recurse=False)}
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
    sums.error += float((again - weight.cpu().float()).double().square().sum())
    sums.weight += float(weight.double().square().sum())
    return {f"{planned.stored}.{end}": tensor for end, tensor in parts.items()}


def _finite(name: str, tensor: Tensor) -> Tensor:
    if not bool(tensor.isfinite().all()):
        raise Infeasible("build_failed", f"Quantizing gave values of {name} that are not finite.")
    return tensor
