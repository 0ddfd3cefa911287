"""Has the layers of checkpoints scored by a process of its own, or reads what was kept. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from configs.cpu import usable_cores
from experiments.engines.one_answer import ask
from experiments.engines.one_device import one_device
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

    What `kept` holds is not computed again: whole rankings of a criterion that scores once, and what of
    others was scored before, such as by a process that was killed. Quantized checkpoints are dequantized.
    `device` (`cpu`, `cuda:0` …) is where it computes, `number_format` (of `room.ITEM_BYTES`) what in. `tell`
    is called with how many documents are read, of how many. The process ends with this one.

    Raises:
        Infeasible: kind `checkpoint` for one that can't be loaded, `illegal` for a choice that can't be met,
            `unsupported` without the device, `out_of_memory` for a model that does not fit now, `crashed`
            when the process ended without an answer.
    """
    names: dict[str, str] = {}
    rankings: dict[str, Ranking] = {}
    scores_once = criterion_named(criterion).scores_once
    if kept is not None:
        kept.drop_old_rows()
        names = {
            each: kept.name(path, criterion, documents, device, number_format)
            for each, path in checkpoints.items()
        }
        found = {each: kept.find(name) for each, name in names.items()} if scores_once else {}
        rankings = {
            each: _chosen(ranking, checkpoints[each], choice)
            for each, ranking in found.items()
            if ranking is not None
        }
    asked = [each for each in checkpoints if each not in rankings]
    if not asked:
        return rankings
    request = {
        "checkpoints": {each: str(checkpoints[each]) for each in asked},
        "rows": {each: str(kept.rows(names[each])) for each in asked} if kept is not None else {},
        "criterion": criterion,
        "documents": [list(document) for document in documents],
        "layers_removed": choice.layers_removed,
        "restrict": choice.restrict,
        "threads": usable_cores(),
        "device": device,
        "number_format": number_format,
    }
    answer = ask(
        PROCESS_MODULE,
        request,
        doing="scores layers",
        log_path=log_path,
        environment=one_device(device),
        tell=tell,
    )
    for each in asked:
        rankings[each] = ranking_from(answer[each])
        if kept is not None and scores_once:
            kept.keep(names[each], rankings[each])
    return {each: rankings[each] for each in checkpoints}


def _chosen(ranking: Ranking, checkpoint: Path, choice: Choice) -> Ranking:
    """The choice from scores that were kept."""
    chosen = ranked_once(ranking.scores, inspect_checkpoint(checkpoint).layer_types, choice)
    return replace(chosen, computed_in=ranking.computed_in)
