"""The process that quantizes: one request by stdin, one answer on stdout, the log on stderr.

Runs in the environment that has llmcompressor, which may have other versions of torch and transformers than
the one that asks and nothing else of ours: only what llmcompressor brings is imported beside this package.
Request: `checkpoint`, `out`, `recipe` (fields of `QuantizationRecipe`), `documents` (lists of token ids),
`grid_points`, `threads`, `seed`, `device`. Answer: `errors`, `seconds`, `peak_memory_bytes`,
`gpu_peak_memory_bytes`, `threads`, `device`.
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path
from typing import Any

from experiments.engines.one_answer import give
from experiments.engines.port import Infeasible

_RSS_UNIT_BYTES = 1 if sys.platform == "darwin" else 1024
"""What `ru_maxrss` counts in: bytes on macOS, KiB on Linux."""


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Quantize as asked; raises `Infeasible` for a checkpoint that can't be loaded or quantized, and for a
    device that is not there or too small."""
    started_s = time.monotonic()
    import torch

    try:
        return _quantized(request, started_s)
    except torch.OutOfMemoryError as cause:
        sentence = " ".join(str(cause).split())
        raise Infeasible("out_of_memory", f"Quantizing on {request['device']}: {sentence}") from None


def _quantized(request: dict[str, Any], started_s: float) -> dict[str, Any]:
    import torch

    device = torch.device(request["device"])
    on_gpu = device.type == "cuda"
    if on_gpu and not torch.cuda.is_available():  # before all that takes seconds to load
        raise Infeasible("unsupported", f"Quantizing on {device} can't be: there is no such GPU here.")

    from experiments.engines.reference.checkpoint import load_model
    from experiments.engines.reference.inspection import inspect_checkpoint
    from experiments.stages.quantize.compression import compress
    from experiments.stages.quantize.packing import write_weights
    from experiments.stages.quantize.plan import (
        HEAD,
        awq_mappings,
        plan,
        quantization_config,
        rescaled,
        ties_head,
    )
    from experiments.stages.quantize.recipe import QuantizationRecipe

    imported_s = time.monotonic()
    torch.set_num_threads(request["threads"])
    torch.manual_seed(request["seed"])
    recipe = QuantizationRecipe(**request["recipe"])
    files = inspect_checkpoint(Path(request["checkpoint"]))
    planned = plan(files, recipe)
    if on_gpu:
        torch.cuda.set_device(device)  # llmcompressor moves layers to the current one
    # A GPU works in the type that weights are published in; a CPU is faster, and exact, in float32.
    model = load_model(files, torch.bfloat16 if on_gpu else torch.float32, device)
    model.config._name_or_path = str(files.folder)
    if recipe.lm_head and ties_head(files):
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone(), requires_grad=False)
        model.config.tie_word_embeddings = False
    loaded_s = time.monotonic()
    mappings = awq_mappings(files, recipe) if recipe.method == "awq" else None
    config = quantization_config(files, recipe)
    compress(model, config, mappings, request["documents"], request["grid_points"])
    missing = [module.stored for module in planned if not _has_scale(model, module.module)]
    if missing:
        raise RuntimeError(f"llmcompressor left out {len(missing)} modules, first {missing[0]}")
    compressed_s = time.monotonic()
    errors = write_weights(files, model, recipe, planned, rescaled(files, recipe), Path(request["out"]))
    assert recipe.lm_head == (HEAD in errors)
    return {
        "errors": errors,
        "seconds": {
            "import": imported_s - started_s,
            "load": loaded_s - imported_s,
            "quantize": compressed_s - loaded_s,
            "write": time.monotonic() - compressed_s,
        },
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT_BYTES,
        "gpu_peak_memory_bytes": torch.cuda.max_memory_allocated() if on_gpu else None,
        "threads": torch.get_num_threads(),
        "device": str(device),
    }


def _has_scale(model: Any, module: str) -> bool:
    return getattr(model.get_submodule(module), "weight_scale", None) is not None


if __name__ == "__main__":
    give(answer)
