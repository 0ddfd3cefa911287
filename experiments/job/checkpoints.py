"""The checkpoint an arm loads: the model's own, or what the stages its configuration asks for made of it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from experiments.artifacts.store import StoredArtifact
from experiments.job.launching import RunningJob
from experiments.job.result import ArtifactRecord
from experiments.job.staging import stage
from experiments.space.configuration import Configuration


def prepare_checkpoint(job: RunningJob, configuration: Configuration) -> tuple[Path, tuple[str, ...]]:
    """Return the checkpoint for `configuration` and the digests of the artifacts it came from.

    What exists is reused; what is missing is built once. Raises `Infeasible` when it can't be built.
    """
    checkpoint, parents = job.context.checkpoint, tuple[str, ...]()
    for each in job.context.checkpoint_stages:
        key = each.key(configuration, checkpoint, parents, job.spec.model_fingerprint)
        if key is None:
            continue
        with stage(job, each.stage, planned=1, text=f"{each.stage.value} the checkpoint") as told:
            artifact = job.context.artifacts.build(key, partial(each.build, configuration, checkpoint))
            told.outcome = "done" if artifact.built else "reused"
            told.detail = {"artifact": artifact.digest}
            record_artifact(job, artifact)
        checkpoint, parents = artifact.path, (*parents, artifact.digest)
    return checkpoint, parents


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
