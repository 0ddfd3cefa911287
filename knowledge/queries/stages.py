"""The stages of an experiment and the artifacts that it built or used."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from db.models import Artifact, ExperimentArtifact, StageRun
from db.models.base import JsonObject
from db.states import StageOutcome
from knowledge.queries.view import View


class StageView(View):
    """A run of a stage; `wall_s` in seconds."""

    stage: str
    attempt: int
    started_at: datetime
    wall_s: float | None
    outcome: StageOutcome | None
    detail: JsonObject | None
    log_path: str | None


class ArtifactView(View):
    """An artifact, as the database knows it."""

    digest: str
    kind: str
    inputs: JsonObject
    tool_versions: JsonObject
    path: str
    bytes: int
    build_s: float
    created_at: datetime
    last_used_at: datetime


def stages_of(session: Session, experiment_id: int) -> tuple[StageView, ...]:
    """Return the runs of stages of an experiment, in order."""
    query = select(StageRun).where(StageRun.experiment_id == experiment_id).order_by(StageRun.id)
    return tuple(
        StageView(
            stage=each.stage,
            attempt=each.attempt,
            started_at=each.started_at,
            wall_s=each.wall_s,
            outcome=each.outcome,
            detail=each.detail,
            log_path=each.log_path,
        )
        for each in session.scalars(query)
    )


def artifacts_of(session: Session, experiment_id: int) -> tuple[ArtifactView, ...]:
    """Return the artifacts of an experiment, oldest first."""
    query = (
        select(Artifact)
        .join(ExperimentArtifact, ExperimentArtifact.artifact_digest == Artifact.digest)
        .where(ExperimentArtifact.experiment_id == experiment_id)
        .order_by(Artifact.created_at, Artifact.digest)
    )
    return tuple(artifact_view(each) for each in session.scalars(query))


def artifact_view(artifact: Artifact) -> ArtifactView:
    """Return the view of a stored artifact."""
    return ArtifactView(
        digest=artifact.digest,
        kind=artifact.kind,
        inputs=artifact.inputs,
        tool_versions=artifact.tool_versions,
        path=artifact.path,
        bytes=artifact.bytes,
        build_s=artifact.build_s,
        created_at=artifact.created_at,
        last_used_at=artifact.last_used_at,
    )
