"""Runs on remote targets, what they were quoted, and the budgets that bound them; amounts in millionths of a
US dollar."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, Index, String, Text, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from db.clock import Instant, now
from db.models.base import NAME_LENGTH, Base, words
from db.states import BudgetScope, RemoteRunState

_OPEN = text(f"state != '{RemoteRunState.ENDED.value}'")


class JobQuote(Base):
    """What a waiting job would cost on its target, and why it is not submitted yet, if it is not.

    `approved_microusd` is the upper bound up to which the user approved it; 0 where the user is asked
    whatever it costs and has not answered.
    """

    __tablename__ = "job_quote"

    job_id: Mapped[int] = mapped_column(ForeignKey("job.id"), primary_key=True)
    target: Mapped[str] = mapped_column(String(NAME_LENGTH))
    expected_s: Mapped[float]
    bound_s: Mapped[float]
    expected_microusd: Mapped[int] = mapped_column(BigInteger)
    bound_microusd: Mapped[int] = mapped_column(BigInteger)
    basis: Mapped[str] = mapped_column(Text)
    quoted_at: Mapped[datetime] = mapped_column(Instant, default=now())
    waits_because: Mapped[str | None] = mapped_column(Text)
    needs_approval: Mapped[bool] = mapped_column(default=False)
    approved_microusd: Mapped[int | None] = mapped_column(BigInteger)


class RemoteRun(Base):
    """One run of a job on a remote target: written, with its reservation, before anything is submitted.

    `key` names job and attempt and never changes; a worker that takes a run over raises the job's attempt,
    not this one. `reserved_microusd` is the quote's upper bound and counts against budgets until the run has
    ended; then `actual_microusd` does, or still the reservation where the provider told nothing.
    """

    __tablename__ = "remote_run"
    __table_args__ = (
        UniqueConstraint("key", name="uq_remote_run_key"),
        Index("uq_remote_run_open_job", "job_id", unique=True, sqlite_where=_OPEN, postgresql_where=_OPEN),
        Index(None, "campaign_id"),
        Index(None, "target", "day"),
        Index(None, "day"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    job_id: Mapped[int] = mapped_column(ForeignKey("job.id"), index=True)
    campaign_id: Mapped[int | None] = mapped_column(ForeignKey("campaign.id"))
    experiment_id: Mapped[int | None] = mapped_column(ForeignKey("experiment.id"), index=True)
    executor: Mapped[str] = mapped_column(String(NAME_LENGTH))
    target: Mapped[str] = mapped_column(String(NAME_LENGTH))
    kind: Mapped[str] = mapped_column(String(NAME_LENGTH))
    key: Mapped[str] = mapped_column(String(NAME_LENGTH))
    ref: Mapped[str | None] = mapped_column(String(NAME_LENGTH))
    state: Mapped[RemoteRunState] = mapped_column(words(RemoteRunState), default=RemoteRunState.INTENDED)
    day: Mapped[int]
    """Days since 1970, UTC, on which it was reserved."""
    expected_s: Mapped[float]
    expected_microusd: Mapped[int] = mapped_column(BigInteger)
    reserved_microusd: Mapped[int] = mapped_column(BigInteger)
    basis: Mapped[str] = mapped_column(Text)
    actual_s: Mapped[float | None]
    actual_microusd: Mapped[int | None] = mapped_column(BigInteger)
    billed: Mapped[bool] = mapped_column(default=False)
    """Whether the provider's own bill says so."""
    limit_s: Mapped[float | None]
    """The most seconds of the whole job that it was submitted with; None for the limits of its stages."""
    outcome: Mapped[str | None] = mapped_column(String(NAME_LENGTH))
    created_at: Mapped[datetime] = mapped_column(Instant, default=now())
    submitted_at: Mapped[datetime | None] = mapped_column(Instant)
    ended_at: Mapped[datetime | None] = mapped_column(Instant)


class MoneyBudget(Base):
    """The most that may be spent within a scope; `name` is a target's or a campaign's id, empty for days."""

    __tablename__ = "money_budget"
    __table_args__ = (UniqueConstraint("scope", "name", name="uq_money_budget_scope"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    scope: Mapped[BudgetScope] = mapped_column(words(BudgetScope))
    name: Mapped[str] = mapped_column(String(NAME_LENGTH), default="")
    limit_microusd: Mapped[int] = mapped_column(BigInteger)
    approve_above_microusd: Mapped[int | None] = mapped_column(BigInteger)
    set_at: Mapped[datetime] = mapped_column(Instant, default=now())
