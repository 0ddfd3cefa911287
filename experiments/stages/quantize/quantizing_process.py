"""The process that quantizes: one request by stdin, one answer on stdout, the log on stderr.

Runs in the environment that has llmcompressor, which may have other versions of torch and transformers than
the one that asks and nothing else of ours: only what llmcompressor brings is imported beside this package.
Request: `checkpoint`, `out`, `recipe` (fields of `QuantizationRecipe`), `documents` (lists of token ids),
`grid_points`, `threads`, `seed`, `device`, and `work`, a folder in which finished layers outlive the
process. It tells each layer as progress. Answer: `errors`, `seconds`, `resumed_layers` (found finished),
`peak_memory_bytes`, `gpu_peak_memory_bytes`, `threads`, `device`.
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path
from typing import Any

from experiments.engines.garbage import unsearched
from experiments.engines.one_answer import give, progress
from experiments.engines.one_device import seen_as
from experiments.engines.torch_gpu import check_gpu
from experiments.engines.torch_memory import told_of_memory
from experiments.stages.quantize.environment import INSTALL_FOR_GPUS, cannot_on

ERROR_DIGITS = 6
"""Digits after the point of a relative error in the report."""

_RSS_UNIT_BYTES = 1 if sys.platform == "darwin" else 1024
"""What `ru_maxrss` counts in: bytes on macOS, KiB on Linux."""


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Quantize as asked; raises `Infeasible` for a checkpoint that can't be loaded or quantized, and for a
    device that is not there or too small."""
    started_s = time.monotonic()
    with told_of_memory(f"Quantizing on {request['device']} ran out of memory", _ways(request)):
        return _quantized(request, started_s)


def _ways(request: dict[str, Any]) -> str:
    """What to do where memory runs out: the text's hidden states and one layer take it."""
    free = f"free memory on {request['device']}, or take a target with more memory"
    if not request["documents"]:
        return free
    return (
        "take fewer quantization.samples or quantization.sample_tokens, or quantization.method=rtn, which "
        f"reads no text; or {free}"
    )


def _quantized(request: dict[str, Any], started_s: float) -> dict[str, Any]:
    with unsearched():
        import torch

    device = torch.device(seen_as(request["device"]))
    on_gpu = device.type == "cuda"
    if on_gpu:  # before all that takes seconds to load
        check_gpu(cannot_on(request["device"]), INSTALL_FOR_GPUS)

    with unsearched():
        from experiments.engines.reference.inspection import inspect_checkpoint
        from experiments.stages.quantize.assembling import assemble_weights
        from experiments.stages.quantize.finished_layers import FinishedLayers, Squares
        from experiments.stages.quantize.layer_by_layer import LayerByLayer
        from experiments.stages.quantize.recipe import QuantizationRecipe

    imported_s = time.monotonic()
    torch.set_num_threads(request["threads"])
    if on_gpu:
        torch.cuda.set_device(device)  # llmcompressor moves layers to the current one
    files = inspect_checkpoint(Path(request["checkpoint"]))
    finished = FinishedLayers(Path(request["work"]))
    by_layer = LayerByLayer(
        files,
        QuantizationRecipe(**request["recipe"]),
        # A GPU works in the type that weights are published in; a CPU is faster, and exact, in float32.
        torch.bfloat16 if on_gpu else torch.float32,
        device,
        request["grid_points"],
        request["seed"],
        finished,
    )
    resumed = by_layer.run(request["documents"], progress)
    compressed_s = time.monotonic()
    places = by_layer.places()
    assemble_weights(files, by_layer.planned, map(finished.place, places), Path(request["out"]))
    squares: dict[str, Squares] = {}
    for place in places:
        for kind, sums in finished.squares(place).items():
            squares[kind] = squares.get(kind, Squares()) + sums
    return {
        "errors": {
            kind: round((sums.error / sums.weight) ** 0.5, ERROR_DIGITS) for kind, sums in squares.items()
        },
        "seconds": {
            "import": imported_s - started_s,
            "quantize": compressed_s - imported_s,
            "write": time.monotonic() - compressed_s,
        },
        "resumed_layers": resumed,
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT_BYTES,
        "gpu_peak_memory_bytes": torch.cuda.max_memory_allocated() if on_gpu else None,
        "threads": torch.get_num_threads(),
        "device": request["device"],
    }


if __name__ == "__main__":
    give(answer)
