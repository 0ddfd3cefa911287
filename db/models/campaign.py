"""Campaigns, and the configurations that they compare."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from db.clock import Instant, now
from db.models.base import DIGEST_LENGTH, NAME_LENGTH, Base, JsonObject, words
from db.states import CampaignState


class Configuration(Base):
    """One immutable point of the configuration space, stored once under the digest of its canonical knobs."""

    __tablename__ = "configuration"

    id: Mapped[int] = mapped_column(primary_key=True)
    digest: Mapped[str] = mapped_column(String(DIGEST_LENGTH), unique=True)
    knobs: Mapped[JsonObject]


class Campaign(Base):
    """A model, a target, an objective, a quality limit, a budget and a seed; driven by one loop at a time."""

    __tablename__ = "campaign"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(NAME_LENGTH))
    model: Mapped[str] = mapped_column(Text)
    model_fingerprint: Mapped[str] = mapped_column(String(NAME_LENGTH))
    target: Mapped[str] = mapped_column(String(NAME_LENGTH))
    objective: Mapped[JsonObject]
    limits: Mapped[JsonObject]
    budget: Mapped[JsonObject]
    seed: Mapped[int] = mapped_column(BigInteger)
    state: Mapped[CampaignState] = mapped_column(words(CampaignState), default=CampaignState.RUNNING)
    stopped_because: Mapped[str | None] = mapped_column(Text)
    spec: Mapped[JsonObject]
    baseline_configuration_id: Mapped[int | None] = mapped_column(ForeignKey("configuration.id"))
    naive_configuration_id: Mapped[int | None] = mapped_column(ForeignKey("configuration.id"))
    # Experiments refer to their campaign, so this key closes a circle.
    best_experiment_id: Mapped[int | None] = mapped_column(ForeignKey("experiment.id", use_alter=True))
    owner: Mapped[str | None] = mapped_column(String(NAME_LENGTH))
    owner_lease_expires_at: Mapped[datetime | None] = mapped_column(Instant)
    created_at: Mapped[datetime] = mapped_column(Instant, default=now())
    started_at: Mapped[datetime | None] = mapped_column(Instant)
    ended_at: Mapped[datetime | None] = mapped_column(Instant)
