"""Has the layers of checkpoints scored by a process of its own. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from configs.cpu import usable_cores
from experiments.engines.one_answer import ask
from experiments.stages.pruning.choosing import Choice
from experiments.stages.pruning.scores import Ranking, ranking_from

PROCESS_MODULE = "experiments.stages.pruning.scoring_process"


def rank_layers(
    checkpoints: Mapping[str, Path],
    criterion: str,
    choice: Choice,
    documents: Sequence[Sequence[int]],
    log_path: Path | None = None,
    device: str = "cpu",
) -> dict[str, Ranking]:
    """The ranking of each checkpoint's layers, one checkpoint after the other, by name.

    Quantized ones are dequantized. `device` (`cpu`, `cuda:0` …) is where it computes, in float32 where that
    fits into the memory that is free there, else in bfloat16. The process ends with this one.

    Raises:
        Infeasible: kind `checkpoint` for one that can't be loaded, `illegal` for a choice that can't be met,
            `unsupported` without the device, `out_of_memory` for a model that does not fit, `crashed` when
            the process ended without an answer.
    """
    request = {
        "checkpoints": {name: str(path) for name, path in checkpoints.items()},
        "criterion": criterion,
        "documents": [list(document) for document in documents],
        "layers_removed": choice.layers_removed,
        "restrict": choice.restrict,
        "threads": usable_cores(),
        "device": device,
    }
    answer = ask(PROCESS_MODULE, request, doing="scores layers", log_path=log_path)
    return {name: ranking_from(answer[name]) for name in checkpoints}
