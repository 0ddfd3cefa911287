"""A process that quantizes layer by layer and tells what it still holds of each layer when that is finished.

Runs in the environment that has llmcompressor. Request: `checkpoint`, `work`, `recipe`, `documents` (none for
plain rounding). Answer: after each layer, the bytes of weights of finished layers that are still in memory.
"""

import weakref
from pathlib import Path
from typing import Any

from experiments.engines.one_answer import give


def answer(request: dict[str, Any]) -> list[int]:
    import torch

    from experiments.engines.reference.inspection import CheckpointFiles, inspect_checkpoint
    from experiments.stages.quantize import layer_by_layer
    from experiments.stages.quantize.finished_layers import FinishedLayers
    from experiments.stages.quantize.recipe import QuantizationRecipe

    read: list[weakref.ref[torch.nn.Parameter]] = []
    held: list[int] = []
    layer_model = layer_by_layer.layer_model

    def noted(files: CheckpointFiles, layer: int, dtype: torch.dtype, device: torch.device) -> Any:
        model = layer_model(files, layer, dtype, device)
        read.extend(weakref.ref(parameter) for parameter in model.parameters())
        return model

    def count(done: int, planned: int, text: str) -> None:
        held.append(sum(each.nbytes for each in (kept() for kept in read) if each is not None))

    layer_by_layer.layer_model = noted
    layer_by_layer.LayerByLayer(
        inspect_checkpoint(Path(request["checkpoint"])),
        QuantizationRecipe(**request["recipe"]),
        torch.float32,
        torch.device("cpu"),
        grid_points=3,
        seed=0,
        finished=FinishedLayers(Path(request["work"])),
    ).run(request["documents"], count)
    return held


if __name__ == "__main__":
    give(answer)
