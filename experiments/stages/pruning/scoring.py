"""Has the layers of checkpoints scored by a process of its own, or reads what was kept. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from configs.cpu import usable_cores
from experiments.engines.one_answer import ask
from experiments.engines.reference.inspection import inspect_checkpoint
from experiments.stages.pruning.choosing import Choice
from experiments.stages.pruning.criteria import criterion_named
from experiments.stages.pruning.kept_scores import KeptScores
from experiments.stages.pruning.room import FLOAT32
from experiments.stages.pruning.scores import Ranking, ranked_once, ranking_from

PROCESS_MODULE = "experiments.stages.pruning.scoring_process"


def rank_layers(
    checkpoints: Mapping[str, Path],
    criterion: str,
    choice: Choice,
    documents: Sequence[Sequence[int]],
    log_path: Path | None = None,
    device: str = "cpu",
    kept: KeptScores | None = None,
    number_format: str = FLOAT32,
    tell: Callable[[int, int, str], None] = lambda done, planned, text: None,
) -> dict[str, Ranking]:
    """The ranking of each checkpoint's layers, one checkpoint after the other, by name.

    What `kept` holds of a criterion that scores once is not computed again, where it holds all of it.
    Quantized ones are dequantized. `device` (`cpu`, `cuda:0` …) is where it computes, `number_format` (of
    `room.ITEM_BYTES`) what in. `tell` is called with how
    many documents are read, of how many. The process ends with this one.

    Raises:
        Infeasible: kind `checkpoint` for one that can't be loaded, `illegal` for a choice that can't be met,
            `unsupported` without the device, `out_of_memory` for a model that does not fit now, `crashed`
            when the process ended without an answer.
    """
    names: dict[str, str] = {}
    if kept is not None and criterion_named(criterion).scores_once:
        names = {
            each: kept.name(path, criterion, documents, device, number_format)
            for each, path in checkpoints.items()
        }
        found = {each: kept.find(name) for each, name in names.items()}
        known = {each: ranking for each, ranking in found.items() if ranking is not None}
        if len(known) == len(checkpoints):
            return {each: _chosen(known[each], checkpoints[each], choice) for each in checkpoints}
    request = {
        "checkpoints": {name: str(path) for name, path in checkpoints.items()},
        "criterion": criterion,
        "documents": [list(document) for document in documents],
        "layers_removed": choice.layers_removed,
        "restrict": choice.restrict,
        "threads": usable_cores(),
        "device": device,
        "number_format": number_format,
    }
    answer = ask(PROCESS_MODULE, request, doing="scores layers", log_path=log_path, tell=tell)
    rankings = {name: ranking_from(answer[name]) for name in checkpoints}
    if kept is not None:
        for each, name in names.items():
            kept.keep(name, rankings[each])
    return rankings


def _chosen(ranking: Ranking, checkpoint: Path, choice: Choice) -> Ranking:
    """The choice from scores that were kept."""
    chosen = ranked_once(ranking.scores, inspect_checkpoint(checkpoint).layer_types, choice)
    return replace(chosen, computed_in=ranking.computed_in)
