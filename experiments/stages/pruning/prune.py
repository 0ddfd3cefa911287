"""Depth pruning: takes the layers that matter least out of a checkpoint. Imports no torch.

Scores come from a process of their own (`scoring.py`); the files are rewritten byte by byte
(`layer_removal.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.engines.port import Infeasible
from experiments.engines.reference.inspection import inspect_checkpoint
from experiments.measurement.evidence import Json
from experiments.stages.copied_files import SCORES_FILE
from experiments.stages.pruning.choosing import Choice, removable
from experiments.stages.pruning.criteria import criterion_named
from experiments.stages.pruning.kept_scores import KeptScores
from experiments.stages.pruning.layer_removal import remove_layers
from experiments.stages.pruning.rank_correlation import RankAgreement, rank_agreement
from experiments.stages.pruning.room import FLOAT32
from experiments.stages.pruning.scores import Ranking
from experiments.stages.pruning.scoring import rank_layers


@dataclass(frozen=True)
class RankedOn:
    """The checkpoints on which layers are ranked: the model before quantization and the quantized one.

    Those that are there are both ranked, and the rankings compared. `decides` says whose ranking decides:
    `original` or `quantized`; with `quantized` both must be there, with `original` that one.
    """

    original: Path | None
    quantized: Path | None = None
    decides: str = "original"

    def checkpoints(self) -> dict[str, Path]:
        """The checkpoints to rank, the deciding one first."""
        found = {"original": self.original, "quantized": self.quantized}
        if self.decides == "quantized":
            found = dict(reversed(found.items()))
        missing = [
            name for name, path in found.items() if path is None and name in ("original", self.decides)
        ]
        if missing:
            raise Infeasible(
                "checkpoint",
                f"Layers are to be ranked on the {missing[0]} model, and no checkpoint of it was given.",
            )
        return {name: path for name, path in found.items() if path is not None}


@dataclass(frozen=True)
class PruneReport:
    """What was done: layers are numbered from 0 in the checkpoint before; `rankings` has what the criterion
    found on each model it looked at, the deciding one first."""

    criterion: str
    restrict: str
    kept: tuple[int, ...]
    layer_types: tuple[str, ...]
    calibration_documents: int
    calibration_tokens: int
    weight_bytes: int
    rankings: dict[str, Ranking]
    agreement: RankAgreement | None

    @property
    def ranked_on(self) -> str:
        """Whose ranking decided: `original` or `quantized`."""
        return next(iter(self.rankings))

    @property
    def removed(self) -> tuple[int, ...]:
        """The layers that went, ascending."""
        return self.rankings[self.ranked_on].removed

    @property
    def scores(self) -> tuple[float, ...]:
        """Each layer's score in the ranking that decided."""
        return self.rankings[self.ranked_on].scores.means

    def to_json(self) -> dict[str, Json]:
        """What the stage tells; scores by document are in a file of the artifact, `prune-scores.json`."""
        return {
            "criterion": self.criterion,
            "restrict": self.restrict,
            "ranked_on": self.ranked_on,
            "computed_in": self.rankings[self.ranked_on].computed_in,
            "removed": list(self.removed),
            "kept": list(self.kept),
            "layer_types": list(self.layer_types),
            "scores": list(self.scores),
            "calibration_documents": self.calibration_documents,
            "calibration_tokens": self.calibration_tokens,
            "weight_bytes": self.weight_bytes,
            "rankings": {name: _told(ranking) for name, ranking in self.rankings.items()},
            "rank_correlation": None if self.agreement is None else self.agreement.to_json(),
        }


def _told(ranking: Ranking) -> Json:
    """A ranking without its scores by document; `removes` has the layers in the order in which they'd go."""
    means = ranking.scores.means
    went = [each.removed for each in ranking.rounds]
    return {
        "scores": list(means),
        "removes": list(went),
        "rescored": _rescored(ranking),
        "computed_in": ranking.computed_in,
    }


def _rescored(ranking: Ranking) -> list[Json]:
    """The scores of each round after the first, by layer: empty where no round scored anew."""
    means = ranking.scores.means
    later = ranking.rounds[1:]
    if all(score == means[layer] for each in later for layer, score in each.scores.items()):
        return []
    return [{str(layer): score for layer, score in each.scores.items()} for each in later]


def prune(
    checkpoint_dir: Path,
    out_dir: Path,
    *,
    choice: Choice,
    criterion: str,
    documents: Sequence[Sequence[int]],
    ranked_on: RankedOn | None = None,
    log_path: Path | None = None,
    device: str = "cpu",
    kept: KeptScores | None = None,
    number_format: str = FLOAT32,
    tell: Callable[[int, int, str], None] = lambda done, planned, text: None,
) -> PruneReport:
    """Write the checkpoint less the layers that matter least into `out_dir`, with `prune-scores.json`.

    `documents` are token ids to calibrate on. Layers are ranked on the checkpoint itself unless `ranked_on`
    names others of the same layers, on `device` (`cpu`, `cuda:0` …) in `number_format`; scores that `kept`
    holds are taken from there. `tell` is called with how many documents are read, of how many.

    Raises:
        Infeasible: kind `illegal` when so many layers can't go, `checkpoint` for a broken one or for models
            whose layers differ, `unsupported` for names that can't be numbered anew or without the device,
            `out_of_memory`, `crashed`.
    """
    criterion_named(criterion)
    if not documents or not all(documents):
        raise Infeasible("illegal", "Pruning needs calibration documents with tokens in them.")
    files = inspect_checkpoint(checkpoint_dir)
    removable(files.layer_types, choice)
    checkpoints = (ranked_on or RankedOn(checkpoint_dir)).checkpoints()
    for path in checkpoints.values():
        _same_layers(files.layer_types, path)
    rankings = rank_layers(
        checkpoints, criterion, choice, documents, log_path, device, kept, number_format, tell
    )
    removed = next(iter(rankings.values())).removed
    weight_bytes = remove_layers(files, removed, out_dir)
    scores = {name: ranking.to_json() for name, ranking in rankings.items()}
    (out_dir / SCORES_FILE).write_text(json.dumps(scores) + "\n", encoding="utf-8")
    staying = tuple(index for index in range(len(files.layer_types)) if index not in removed)
    return PruneReport(
        criterion=criterion,
        restrict=choice.restrict,
        kept=staying,
        layer_types=tuple(files.layer_types[index] for index in staying),
        calibration_documents=len(documents),
        calibration_tokens=sum(map(len, documents)),
        weight_bytes=weight_bytes,
        rankings=rankings,
        agreement=rank_agreement(rankings["original"].scores, rankings["quantized"].scores)
        if len(rankings) > 1
        else None,
    )


def _same_layers(layer_types: Sequence[str], other: Path) -> None:
    found = inspect_checkpoint(other).layer_types
    if found != tuple(layer_types):
        raise Infeasible(
            "checkpoint",
            f"The checkpoint at {other}, on which layers are to be ranked, has {len(found)} layers of other "
            f"kinds than the {len(layer_types)} of the one that is pruned; they must be alike.",
        )
