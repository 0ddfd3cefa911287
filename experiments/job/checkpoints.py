"""The checkpoint an arm loads: the model's own, or what the stages its configuration asks for made of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

from experiments.artifacts.stored import StoredArtifact
from experiments.engines.port import Infeasible
from experiments.job.context import CheckpointStage
from experiments.job.result import ArtifactRecord
from experiments.job.running_job import RunningJob
from experiments.job.staging import stage
from experiments.space.configuration import Configuration

MOST_BESIDE = 4
"""How deep checkpoints may need other checkpoints; deeper is a circle."""

RunStage: TypeAlias = Callable[
    [CheckpointStage, Configuration, Path, tuple[str, ...], Path | None], StoredArtifact
]
"""Runs a stage for a configuration on a checkpoint, given the artifacts that it came from and a checkpoint
beside it; returns what it built, or what was there."""


def prepare_checkpoint(job: RunningJob, configuration: Configuration) -> tuple[Path, tuple[str, ...]]:
    """Return the checkpoint for `configuration` and the digests of the artifacts it came from.

    What exists is reused; what is missing is built once. Raises `Infeasible` when it can't be built.
    """
    context = job.context
    return staged_checkpoint(context.checkpoint, context.checkpoint_stages, configuration, partial(_run, job))


def staged_checkpoint(
    original: Path,
    stages: Sequence[CheckpointStage],
    configuration: Configuration,
    run: RunStage,
    depth: int = 0,
) -> tuple[Path, tuple[str, ...]]:
    """Let `run` run the stages that `configuration` asks for, in their order, on the `original` checkpoint.

    Returns and raises as `prepare_checkpoint`.
    """
    if depth > MOST_BESIDE:
        raise Infeasible("illegal", f"The checkpoint of {configuration} needs itself to be built.")
    checkpoint, parents = original, tuple[str, ...]()
    for each in sorted(stages, key=lambda each: each.place(configuration)):
        if not each.asked(configuration):
            continue
        other, others = None, tuple[str, ...]()
        needed = each.beside(configuration)
        if needed is not None:
            other, others = staged_checkpoint(original, stages, needed, run, depth + 1)
        inputs = (*parents, *(digest for digest in others if digest not in parents))
        built = run(each, configuration, checkpoint, inputs, other)
        checkpoint, parents = built.path, (*parents, built.digest)
    return checkpoint, parents


def report_name(each: CheckpointStage) -> str:
    """The file within an artifact that holds what its stage told, as JSON."""
    return f"{each.stage.value}-report.json"


def _run(
    job: RunningJob,
    each: CheckpointStage,
    configuration: Configuration,
    checkpoint: Path,
    inputs: tuple[str, ...],
    beside: Path | None,
) -> StoredArtifact:
    def tell(done: int, planned: int, text: str) -> None:
        job.records.progress(each.stage, done, planned, text)

    def build(folder: Path) -> None:
        job.guard.before_launches()  # a stage may compute on the device too
        try:
            told = each.build(configuration, checkpoint, folder, beside, tell)
        except Infeasible as reason:
            raise job.guard.explained(reason) from reason
        (folder / report_name(each)).write_text(json.dumps(dict(told), indent=2) + "\n", encoding="utf-8")

    with stage(job, each.stage, planned=1, text=f"{each.stage.value} the checkpoint") as told:
        key = each.key(configuration, checkpoint, inputs, job.spec.model_fingerprint)
        artifact = job.context.artifacts.build(key, build)
        told.outcome = "done" if artifact.built else "reused"
        report = json.loads((artifact.path / report_name(each)).read_text(encoding="utf-8"))
        told.detail = {"artifact": artifact.digest, "report": report}
        record_artifact(job, artifact)
    return artifact


def record_artifact(job: RunningJob, artifact: StoredArtifact) -> None:
    """Tell that the job built or used an artifact."""
    job.records.artifact(
        ArtifactRecord(
            digest=artifact.digest,
            kind=artifact.kind,
            inputs={**artifact.inputs, "parents": list(artifact.parents)},
            tool_versions=artifact.tool_versions,
            path=str(artifact.path),
            bytes=artifact.bytes,
            build_s=artifact.build_s if artifact.built else 0.0,
        )
    )
