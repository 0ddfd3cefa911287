"""The checkpoint of a recipe: which artifacts it comes from, and how they are built again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from configs.errors import AutoinferError
from experiments.artifacts.key import ArtifactKey
from experiments.artifacts.store import ArtifactStore
from experiments.artifacts.stored import StoredArtifact
from experiments.engines.port import Infeasible
from experiments.job.assembly import KEPT_SCORES, UNFINISHED_QUANTIZATIONS
from experiments.job.checkpoints import RunStage, report_name, staged_checkpoint
from experiments.job.context import CheckpointStage
from experiments.space.configuration import Configuration
from experiments.stages.pruning.stage import DepthPruning
from experiments.stages.quantize.stage import WeightQuantization

Found = Callable[[str], StoredArtifact | None]
"""Gives the artifact of a digest, as far as it is known."""


def stages_on(device: str, cache_dir: Path) -> tuple[CheckpointStage, ...]:
    """The stages that make checkpoints, as a job on this device has them."""
    return (
        DepthPruning(device, cache_dir / KEPT_SCORES),
        WeightQuantization(device, cache_dir / UNFINISHED_QUANTIZATIONS),
    )


def is_built(configuration: Configuration, stages: tuple[CheckpointStage, ...]) -> bool:
    """Whether the configuration asks for another checkpoint than the model's own."""
    return any(each.asked(configuration) for each in stages)


def known_chain(
    original: Path,
    fingerprint: str,
    configuration: Configuration,
    stages: tuple[CheckpointStage, ...],
    found: Found,
) -> tuple[StoredArtifact, ...]:
    """The artifacts that the checkpoint of a configuration comes from, the last one its own.

    Raises `AutoinferError` where one is not known: other versions of what builds it make another one.
    """
    chain: list[StoredArtifact] = []

    def run(
        stage: CheckpointStage,
        asked: Configuration,
        checkpoint: Path,
        inputs: tuple[str, ...],
        beside: Path | None,
    ) -> StoredArtifact:
        key = stage.key(asked, checkpoint, inputs, fingerprint)
        known = found(key.digest)
        if known is None:
            raise AutoinferError(
                f"The checkpoint of this configuration is not known: its {stage.stage.value} would be "
                f"{key.digest[:12]} with what is installed here, and nothing was measured with that.",
                "Export the recipe where the campaign ran, with the versions that it ran with.",
            )
        chain.append(known)
        return known

    _staged(original, stages, configuration, run)
    return tuple(chain)


def build_checkpoint(
    original: Path,
    fingerprint: str,
    configuration: Configuration,
    stages: tuple[CheckpointStage, ...],
    store: ArtifactStore,
    tell: Callable[[str], None],
) -> StoredArtifact:
    """Build the checkpoint of a configuration into a store; what is there is used.

    Raises `AutoinferError` where that can't be done here.
    """

    def run(
        stage: CheckpointStage,
        asked: Configuration,
        checkpoint: Path,
        inputs: tuple[str, ...],
        beside: Path | None,
    ) -> StoredArtifact:
        def build(folder: Path) -> None:
            told = stage.build(asked, checkpoint, folder, beside)
            (folder / report_name(stage)).write_text(
                json.dumps(dict(told), indent=2) + "\n", encoding="utf-8"
            )

        key: ArtifactKey = stage.key(asked, checkpoint, inputs, fingerprint)
        artifact = store.build(key, build)
        said = "is built" if artifact.built else "was here already"
        tell(f"{stage.stage.value}: {artifact.digest} {said}")
        last.append(artifact)
        return artifact

    last: list[StoredArtifact] = []
    _staged(original, stages, configuration, run)
    return last[-1]


def _staged(
    original: Path, stages: tuple[CheckpointStage, ...], configuration: Configuration, run: RunStage
) -> None:
    try:
        staged_checkpoint(original, stages, configuration, run)
    except Infeasible as refusal:
        raise AutoinferError(
            f"The checkpoint can't be built here ({refusal.kind}): {refusal.cause}",
            "Build it where the campaign ran.",
        ) from None
