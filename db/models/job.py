"""The durable queue's jobs and the workers that take them."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, Index, String, Text, text
from sqlalchemy.orm import Mapped, mapped_column

from db.clock import Instant, now
from db.models.base import NAME_LENGTH, Base, JsonObject, words
from db.states import JobState, WorkerState

_QUEUED = text(f"state = '{JobState.QUEUED.value}'")
_RUNNING = text(f"state = '{JobState.RUNNING.value}'")


class Worker(Base):
    """A process that takes jobs; `device` is the one it runs them on."""

    __tablename__ = "worker"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(NAME_LENGTH), index=True)
    host: Mapped[str] = mapped_column(String(NAME_LENGTH))
    pid: Mapped[int]
    device: Mapped[str] = mapped_column(String(NAME_LENGTH))
    started_at: Mapped[datetime] = mapped_column(Instant, default=now())
    heartbeat_at: Mapped[datetime] = mapped_column(Instant, default=now())
    state: Mapped[WorkerState] = mapped_column(words(WorkerState), default=WorkerState.IDLE)


class Job(Base):
    """A piece of work under a lease; see `db.queue` for what may happen to it.

    Lower `priority` goes first, then lower `seq`. `device` is unique among hosts (such as `desk/cpu`) and
    keeps its last value when the job is queued again; at most one running job may hold it. `process` names
    the process group that the latest attempt bound, as long as nobody has confirmed its end.
    """

    __tablename__ = "job"
    __table_args__ = (
        Index("ix_job_queue", "priority", "seq", "id", sqlite_where=_QUEUED, postgresql_where=_QUEUED),
        Index(
            "uq_job_running_device", "device", unique=True, sqlite_where=_RUNNING, postgresql_where=_RUNNING
        ),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(String(NAME_LENGTH))
    campaign_id: Mapped[int | None] = mapped_column(ForeignKey("campaign.id"), index=True)
    experiment_id: Mapped[int | None] = mapped_column(ForeignKey("experiment.id"), index=True)
    spec: Mapped[JsonObject]
    priority: Mapped[float] = mapped_column(default=0.0)
    seq: Mapped[int]
    device_class: Mapped[str] = mapped_column(String(NAME_LENGTH))
    state: Mapped[JobState] = mapped_column(words(JobState), default=JobState.QUEUED)
    attempt: Mapped[int] = mapped_column(default=0)
    max_attempts: Mapped[int]
    owner: Mapped[str | None] = mapped_column(String(NAME_LENGTH))
    device: Mapped[str | None] = mapped_column(String(NAME_LENGTH))
    process: Mapped[JsonObject | None]
    lease_expires_at: Mapped[datetime | None] = mapped_column(Instant)
    cancel_requested: Mapped[bool] = mapped_column(default=False)
    error: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(Instant, default=now())
    started_at: Mapped[datetime | None] = mapped_column(Instant)
    finished_at: Mapped[datetime | None] = mapped_column(Instant)
