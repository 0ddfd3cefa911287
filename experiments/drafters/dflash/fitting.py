"""Whether a DFlash drafter fits a target, and by which layers it must be remapped. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.drafters.dflash.shape import DFlashShape
from experiments.engines.port import Infeasible
from experiments.stages.pruning.layer_removal import KEPT_LAYERS

SIZES = ("vocab_size", "hidden_size", "num_hidden_layers")
"""Fields of a target's configuration that a drafter is held against."""


@dataclass(frozen=True)
class TargetSizes:
    """What of a target decides whether a drafter fits it: entries of its vocabulary, the hidden size, its
    layers, and, after depth pruning, which of the whole model's layers they are, in order."""

    vocabulary: int
    hidden: int
    layers: int
    kept_layers: tuple[int, ...] | None = None

    @classmethod
    def of(cls, text_config: Mapping[str, Any]) -> TargetSizes:
        """The sizes that a checkpoint's `config.json` tells, by that of its text model.

        Raises:
            Infeasible: kind `checkpoint`, when it lacks one.
        """
        kept = text_config.get(KEPT_LAYERS)
        try:
            vocabulary, hidden, layers = (int(text_config[name]) for name in SIZES)
        except KeyError as missing:
            raise Infeasible(
                "checkpoint", f"The target's config.json does not say {missing.args[0]}."
            ) from None
        return cls(vocabulary, hidden, layers, None if kept is None else tuple(int(layer) for layer in kept))


def check_same_model(shape: DFlashShape, target: TargetSizes, folder: Path) -> None:
    """Raise `Infeasible` (kind `checkpoint`) for a drafter of another vocabulary or hidden size; how many
    layers the target has left does not matter. `folder` is where the drafter lies."""
    wrong = (
        ("a vocabulary of {} tokens", shape.vocabulary, target.vocabulary),
        ("the hidden size {}", shape.hidden, target.hidden),
    )
    for words, own, targets in wrong:
        if own != targets:
            raise Infeasible(
                "checkpoint",
                f"The drafter at {folder} has {words.format(own)} and the target {targets}: it was made for "
                "another model.",
            )


def layers_to_remap_by(shape: DFlashShape, target: TargetSizes, folder: Path) -> Sequence[int] | None:
    """The kept layers by which the drafter's own are to be remapped; None where it reads this target as it
    is: a whole one, or a pruned one that it was made for.

    Raises:
        Infeasible: kind `checkpoint`, when it was made for another target.
    """
    made_for, kept = shape.target_layers, target.kept_layers
    if kept is None or made_for == target.layers:
        _check_depth(shape, made_for, target, folder)
        return None
    if made_for and max(kept) >= made_for:
        raise Infeasible(
            "checkpoint",
            f"The drafter at {folder} was made for a target of {made_for} layers; of this one, layer "
            f"{max(kept)} was kept.",
        )
    _check_depth(None, len(kept), target, folder)
    return kept


def _check_depth(shape: DFlashShape | None, made_for: int, target: TargetSizes, folder: Path) -> None:
    if made_for not in (0, target.layers):
        raise Infeasible(
            "checkpoint",
            f"The drafter at {folder} was made for a target of {made_for} layers and this one has "
            f"{target.layers}; after depth pruning, the layers that were kept must be given.",
        )
    if shape is not None and shape.target_layer_ids[-1] >= target.layers:
        raise Infeasible(
            "checkpoint",
            f"The drafter at {folder} reads layer {shape.target_layer_ids[-1]} of a target that has "
            f"{target.layers} layers, counted from 0.",
        )
