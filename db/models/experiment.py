"""Experiments, the launches they consist of, the environments these ran in and the raw samples they gave."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, Index, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from db.clock import Instant, now
from db.models.base import DIGEST_LENGTH, NAME_LENGTH, Base, BigId, JsonObject, words
from db.states import Arm, ExperimentKind, ExperimentState


class Experiment(Base):
    """One test of one hypothesis, a baseline, a reproduction, a confirmation on another target, or a noise
    run; `wall_s` is in seconds."""

    __tablename__ = "experiment"
    __table_args__ = (Index(None, "campaign_id", "state"), Index(None, "campaign_id", "kind"))

    id: Mapped[int] = mapped_column(primary_key=True)
    campaign_id: Mapped[int] = mapped_column(ForeignKey("campaign.id"))
    hypothesis_id: Mapped[int | None] = mapped_column(ForeignKey("hypothesis.id"), index=True)
    kind: Mapped[ExperimentKind] = mapped_column(words(ExperimentKind))
    target: Mapped[str] = mapped_column(String(NAME_LENGTH))
    control_configuration_id: Mapped[int] = mapped_column(ForeignKey("configuration.id"))
    candidate_configuration_id: Mapped[int | None] = mapped_column(ForeignKey("configuration.id"))
    state: Mapped[ExperimentState] = mapped_column(words(ExperimentState), default=ExperimentState.PLANNED)
    stage: Mapped[str | None] = mapped_column(String(NAME_LENGTH))
    progress: Mapped[JsonObject | None]
    plan: Mapped[JsonObject]
    preregistration_digest: Mapped[str | None] = mapped_column(String(DIGEST_LENGTH))
    reproduces_experiment_id: Mapped[int | None] = mapped_column(ForeignKey("experiment.id"), index=True)
    failure_kind: Mapped[str | None] = mapped_column(String(NAME_LENGTH))
    failure: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(Instant, default=now())
    started_at: Mapped[datetime | None] = mapped_column(Instant)
    finished_at: Mapped[datetime | None] = mapped_column(Instant)
    wall_s: Mapped[float | None]
    versions: Mapped[JsonObject | None]


class Environment(Base):
    """The machine and the software a launch ran in, stored once under the digest of its canonical data."""

    __tablename__ = "environment"

    digest: Mapped[str] = mapped_column(String(DIGEST_LENGTH), primary_key=True)
    data: Mapped[JsonObject]


class Launch(Base):
    """A fresh process that served one configuration for one arm: the unit that varies.

    `resolved` is the resolved configuration, what actually ran; `load_s` the seconds until it could answer.
    `started_at` is when it was written here, all launches of a run together after its end: the run's own
    `started_at` is before them.
    """

    __tablename__ = "launch"
    __table_args__ = (
        UniqueConstraint(
            "experiment_id", "attempt", "stage", "arm", "index", "configuration_id", name="uq_launch_place"
        ),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    experiment_id: Mapped[int] = mapped_column(ForeignKey("experiment.id"))
    attempt: Mapped[int]
    arm: Mapped[Arm] = mapped_column(words(Arm))
    index: Mapped[int]
    stage: Mapped[str] = mapped_column(String(NAME_LENGTH))
    configuration_id: Mapped[int] = mapped_column(ForeignKey("configuration.id"))
    resolved: Mapped[JsonObject]
    environment_digest: Mapped[str] = mapped_column(ForeignKey("environment.digest"))
    load_s: Mapped[float | None]
    started_at: Mapped[datetime] = mapped_column(Instant, default=now())


class Measurement(Base):
    """One raw sample of one launch; `position` is its place in the A/B order of its block."""

    __tablename__ = "measurement"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    launch_id: Mapped[int] = mapped_column(ForeignKey("launch.id"), index=True)
    block: Mapped[int]
    position: Mapped[int]
    item: Mapped[str] = mapped_column(String(NAME_LENGTH))
    seq: Mapped[int]
    metric: Mapped[str] = mapped_column(String(NAME_LENGTH))
    unit: Mapped[str] = mapped_column(String(NAME_LENGTH))
    value: Mapped[float]


class NoiseLaunch(Base):
    """One control launch as the noise profile of a target sees it; logarithms are natural."""

    __tablename__ = "noise_launch"
    __table_args__ = (Index(None, "target_key", "model_fingerprint", "metric"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    target_key: Mapped[str] = mapped_column(String(NAME_LENGTH))
    model_fingerprint: Mapped[str] = mapped_column(String(NAME_LENGTH))
    configuration_id: Mapped[int] = mapped_column(ForeignKey("configuration.id"))
    window: Mapped[str] = mapped_column(String(NAME_LENGTH))
    experiment_id: Mapped[int] = mapped_column(ForeignKey("experiment.id"), index=True)
    metric: Mapped[str] = mapped_column(String(NAME_LENGTH))
    log_centre: Mapped[float]
    log_sd_within: Mapped[float]
    samples: Mapped[int]
    created_at: Mapped[datetime] = mapped_column(Instant, default=now())
