"""The running log, the moves it explains and the directives it carries."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from db.clock import Instant, now
from db.models.base import NAME_LENGTH, Base, BigId, JsonObject, words
from db.states import DirectiveKind


class Event(Base):
    """One line of the running log; ids grow in the order of commit and are never used again.

    `kind` is one of `db.event_kinds.EventKind` at the time of writing; `subject` is a label such as `H-021`.
    """

    __tablename__ = "event"
    __table_args__ = (
        Index(None, "campaign_id", "id"),
        Index(None, "kind", "id"),
        Index(None, "subject", "id"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    at: Mapped[datetime] = mapped_column(Instant, default=now())
    campaign_id: Mapped[int | None] = mapped_column(ForeignKey("campaign.id"))
    kind: Mapped[str] = mapped_column(String(NAME_LENGTH))
    subject: Mapped[str | None] = mapped_column(String(NAME_LENGTH))
    text: Mapped[str] = mapped_column(Text)
    data: Mapped[JsonObject | None]


class Move(Base):
    """A change of a hypothesis's place in the queue: what caused it, which ranking made it, and why.

    A rank is empty on the side where the hypothesis was not in the queue.
    """

    __tablename__ = "move"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    event_id: Mapped[int] = mapped_column(BigId, ForeignKey("event.id"), index=True)
    ranking_event_id: Mapped[int] = mapped_column(BigId, ForeignKey("event.id"), index=True)
    hypothesis_id: Mapped[int] = mapped_column(ForeignKey("hypothesis.id"), index=True)
    from_rank: Mapped[int | None]
    to_rank: Mapped[int | None]
    reason: Mapped[str] = mapped_column(Text)


class Directive(Base):
    """The user's steering, which the ranking cites; it stays after it was lifted, with `active` false."""

    __tablename__ = "directive"
    __table_args__ = (Index(None, "campaign_id", "active"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    campaign_id: Mapped[int] = mapped_column(ForeignKey("campaign.id"))
    kind: Mapped[DirectiveKind] = mapped_column(words(DirectiveKind))
    lever: Mapped[str | None] = mapped_column(String(NAME_LENGTH))
    hypothesis_id: Mapped[int | None] = mapped_column(ForeignKey("hypothesis.id"), index=True)
    value: Mapped[JsonObject | None]
    text: Mapped[str] = mapped_column(Text)
    event_id: Mapped[int] = mapped_column(BigId, ForeignKey("event.id"))
    active: Mapped[bool] = mapped_column(default=True)
    created_at: Mapped[datetime] = mapped_column(Instant, default=now())
