"""Artifacts named by the beginning of their digest, and the experiments that used them."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from configs.errors import UsageError
from db.labels import Noun, format_label
from db.models import Artifact, ExperimentArtifact
from knowledge.queries.measured.stages import ArtifactView, artifact_view

LEAST_DIGITS = 4
"""Fewest hexadecimal digits that may stand for a digest."""


class ArtifactDetail(ArtifactView):
    """An artifact and the experiments that built or used it."""

    experiments: tuple[str, ...]


def artifact_detail(session: Session, prefix: str) -> ArtifactDetail:
    """Return the artifact whose digest begins with `prefix`, hexadecimal digits in lower case.

    Raises `UsageError` when there is none or more than one.
    """
    query = (
        select(Artifact).where(Artifact.digest.startswith(prefix, autoescape=True)).order_by(Artifact.digest)
    )
    found = session.scalars(query.limit(2)).all()
    if not found:
        raise UsageError(
            f"No artifact in the database has a digest that begins with {prefix}.",
            "List them with: autoinfer artifacts list",
        )
    if len(found) > 1:
        raise UsageError(
            f"More than one artifact has a digest that begins with {prefix}.", "Give more of its digits."
        )
    users = session.scalars(
        select(ExperimentArtifact.experiment_id)
        .where(ExperimentArtifact.artifact_digest == found[0].digest)
        .order_by(ExperimentArtifact.experiment_id)
    )
    return ArtifactDetail(
        **artifact_view(found[0]).model_dump(),
        experiments=tuple(format_label(Noun.EXPERIMENT, number) for number in users),
    )
