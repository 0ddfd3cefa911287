"""What stages did and what they left behind."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from db.clock import Instant, now
from db.models.base import DIGEST_LENGTH, NAME_LENGTH, Base, JsonObject, words
from db.states import StageOutcome


class StageRun(Base):
    """One run of one stage of an experiment, under one attempt; `outcome` is empty while it runs."""

    __tablename__ = "stage_run"
    __table_args__ = (Index(None, "experiment_id", "attempt"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    experiment_id: Mapped[int] = mapped_column(ForeignKey("experiment.id"))
    attempt: Mapped[int]
    stage: Mapped[str] = mapped_column(String(NAME_LENGTH))
    started_at: Mapped[datetime] = mapped_column(Instant, default=now())
    wall_s: Mapped[float | None]
    outcome: Mapped[StageOutcome | None] = mapped_column(words(StageOutcome))
    detail: Mapped[JsonObject | None]
    log_path: Mapped[str | None] = mapped_column(Text)


class Artifact(Base):
    """The output of a stage, under the digest of its canonical inputs and tool versions."""

    __tablename__ = "artifact"

    digest: Mapped[str] = mapped_column(String(DIGEST_LENGTH), primary_key=True)
    kind: Mapped[str] = mapped_column(String(NAME_LENGTH))
    inputs: Mapped[JsonObject]
    tool_versions: Mapped[JsonObject]
    path: Mapped[str] = mapped_column(Text)
    bytes: Mapped[int] = mapped_column(BigInteger)
    build_s: Mapped[float]
    created_at: Mapped[datetime] = mapped_column(Instant, default=now())
    last_used_at: Mapped[datetime] = mapped_column(Instant, default=now(), index=True)


class ExperimentArtifact(Base):
    """Which artifacts an experiment built or used."""

    __tablename__ = "experiment_artifact"

    experiment_id: Mapped[int] = mapped_column(ForeignKey("experiment.id"), primary_key=True)
    artifact_digest: Mapped[str] = mapped_column(ForeignKey("artifact.digest"), primary_key=True, index=True)
