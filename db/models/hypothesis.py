"""Hypotheses and their parents."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, Index, String, Text, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from db.clock import Instant, now
from db.models.base import DIGEST_LENGTH, NAME_LENGTH, Base, JsonObject, words
from db.states import HypothesisState

_STANDS = text("question IS NULL AND state NOT IN ('withdrawn', 'inconclusive')")


class Hypothesis(Base):
    """A falsifiable claim: a change of a configuration and its predicted effect on a metric.

    `prediction` holds `log_ratio_mean` and `log_ratio_sd` of candidate over control; `min_effect` is the
    smallest effect worth having in the metric's scale (0.03 is 3 %); `rank` counts from 1 and is empty
    outside the queue. `question` is the id of the campaign's question that it answers, empty for all others.
    `target` is where it is to be confirmed, as jobs name it, and `confirms_experiment_id` the test that found
    it on the campaign's own; empty for what is tested there. `drafter_content` is the fingerprint of the
    external drafters of both arms when it was written down, empty where none drafts or nobody knows.
    """

    __tablename__ = "hypothesis"
    __table_args__ = (
        # What a campaign asks may repeat a comparison, each question once; nobody else may, unless nothing
        # was learnt of the earlier one: it was withdrawn, or its test broke and left it inconclusive.
        Index(
            "uq_hypothesis_comparison",
            "campaign_id",
            "candidate_configuration_id",
            "control_configuration_id",
            "metric",
            "drafter_content",
            "target",
            unique=True,
            sqlite_where=_STANDS,
            postgresql_where=_STANDS,
        ),
        UniqueConstraint("campaign_id", "question", name="uq_hypothesis_question"),
        Index(None, "campaign_id", "state", "rank", "state_changed_at"),
        Index(None, "campaign_id", "state", "lever", "proposer"),
        Index(None, "campaign_id", "change_digest"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    campaign_id: Mapped[int] = mapped_column(ForeignKey("campaign.id"))
    claim: Mapped[str] = mapped_column(Text)
    control_configuration_id: Mapped[int] = mapped_column(ForeignKey("configuration.id"))
    candidate_configuration_id: Mapped[int] = mapped_column(ForeignKey("configuration.id"))
    change: Mapped[JsonObject]
    change_digest: Mapped[str] = mapped_column(String(DIGEST_LENGTH))
    metric: Mapped[str] = mapped_column(String(NAME_LENGTH))
    question: Mapped[str | None] = mapped_column(String(NAME_LENGTH))
    drafter_content: Mapped[str] = mapped_column(String(DIGEST_LENGTH), default="", server_default="")
    target: Mapped[str] = mapped_column(String(NAME_LENGTH), default="", server_default="")
    confirms_experiment_id: Mapped[int | None]
    prediction: Mapped[JsonObject]
    min_effect: Mapped[float]
    refuted_if: Mapped[str] = mapped_column(Text)
    rationale: Mapped[str] = mapped_column(Text)
    proposer: Mapped[str] = mapped_column(String(NAME_LENGTH))
    lever: Mapped[str] = mapped_column(String(NAME_LENGTH))
    state: Mapped[HypothesisState] = mapped_column(words(HypothesisState), default=HypothesisState.PROPOSED)
    pinned: Mapped[bool] = mapped_column(default=False)
    rank: Mapped[int | None]
    score: Mapped[JsonObject | None]
    rank_reason: Mapped[str | None] = mapped_column(Text)
    preregistration_digest: Mapped[str | None] = mapped_column(String(DIGEST_LENGTH))
    state_reason: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(Instant, default=now())
    state_changed_at: Mapped[datetime] = mapped_column(Instant, default=now())


class HypothesisParent(Base):
    """An edge of the graph: the `parent` is what the hypothesis follows from."""

    __tablename__ = "hypothesis_parent"

    hypothesis_id: Mapped[int] = mapped_column(ForeignKey("hypothesis.id"), primary_key=True)
    parent_id: Mapped[int] = mapped_column(ForeignKey("hypothesis.id"), primary_key=True, index=True)
