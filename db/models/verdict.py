"""What was decided about experiments, and what verdicts together say."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from db.clock import Instant, now
from db.models.base import DIGEST_LENGTH, NAME_LENGTH, Base, JsonObject, words
from db.states import EvidenceRelation, FindingStatus, VerdictOutcome


class Verdict(Base):
    """The judge's decision on an experiment; effects are natural logarithms of candidate over control.

    `launches` and `samples` are the n behind the interval; `judge` holds the rule and its settings.
    """

    __tablename__ = "verdict"

    id: Mapped[int] = mapped_column(primary_key=True)
    experiment_id: Mapped[int] = mapped_column(ForeignKey("experiment.id"), unique=True)
    hypothesis_id: Mapped[int | None] = mapped_column(ForeignKey("hypothesis.id"), index=True)
    outcome: Mapped[VerdictOutcome] = mapped_column(words(VerdictOutcome), index=True)
    effect_log: Mapped[float | None]
    interval_low_log: Mapped[float | None]
    interval_high_log: Mapped[float | None]
    launches: Mapped[int]
    samples: Mapped[int]
    quality: Mapped[JsonObject | None]
    reason: Mapped[str] = mapped_column(Text)
    judge: Mapped[JsonObject]
    preregistration_digest: Mapped[str | None] = mapped_column(String(DIGEST_LENGTH))
    created_at: Mapped[datetime] = mapped_column(Instant, default=now())


class Finding(Base):
    """What verdicts together say, never beyond `scope`; `key` names the statement, `rule` what derived it.

    `stale_cause` says why it is stale (`knowledge.findings.staleness.StaleCause`), empty while it is not.
    """

    __tablename__ = "finding"

    id: Mapped[int] = mapped_column(primary_key=True)
    campaign_id: Mapped[int | None] = mapped_column(ForeignKey("campaign.id"), index=True)
    key: Mapped[str] = mapped_column(Text, unique=True)
    claim: Mapped[str] = mapped_column(Text)
    scope: Mapped[JsonObject]
    effect_log: Mapped[float | None]
    interval_low_log: Mapped[float | None]
    interval_high_log: Mapped[float | None]
    strength: Mapped[str] = mapped_column(String(NAME_LENGTH))
    status: Mapped[FindingStatus] = mapped_column(words(FindingStatus), default=FindingStatus.HOLDS)
    status_reason: Mapped[str | None] = mapped_column(Text)
    stale_cause: Mapped[str | None] = mapped_column(String(NAME_LENGTH))
    superseded_by_id: Mapped[int | None] = mapped_column(ForeignKey("finding.id"), index=True)
    rule: Mapped[str] = mapped_column(String(NAME_LENGTH))
    created_at: Mapped[datetime] = mapped_column(Instant, default=now())
    updated_at: Mapped[datetime] = mapped_column(Instant, default=now())


class FindingEvidence(Base):
    """What one verdict says about one finding."""

    __tablename__ = "finding_evidence"

    finding_id: Mapped[int] = mapped_column(ForeignKey("finding.id"), primary_key=True)
    verdict_id: Mapped[int] = mapped_column(ForeignKey("verdict.id"), primary_key=True, index=True)
    relation: Mapped[EvidenceRelation] = mapped_column(words(EvidenceRelation))


class ImportedVerdict(Base):
    """A verdict of another database, as it was told there (`knowledge.findings.exchange.ToldVerdict`).

    `origin` names that database, `key` the statement it bears on (`Finding.key` without a generation),
    `digest` all that was said but its labels there, so that the same verdict is kept once.
    """

    __tablename__ = "imported_verdict"

    id: Mapped[int] = mapped_column(primary_key=True)
    digest: Mapped[str] = mapped_column(String(DIGEST_LENGTH), unique=True)
    origin: Mapped[str] = mapped_column(String(NAME_LENGTH))
    key: Mapped[str] = mapped_column(Text, index=True)
    told: Mapped[JsonObject]
    created_at: Mapped[datetime] = mapped_column(Instant, default=now())


class ImportedEvidence(Base):
    """What one imported verdict says about one finding."""

    __tablename__ = "imported_evidence"

    finding_id: Mapped[int] = mapped_column(ForeignKey("finding.id"), primary_key=True)
    imported_verdict_id: Mapped[int] = mapped_column(
        ForeignKey("imported_verdict.id"), primary_key=True, index=True
    )
    relation: Mapped[EvidenceRelation] = mapped_column(words(EvidenceRelation))
