"""Tokens that let somebody use the dashboard from another machine."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import String
from sqlalchemy.orm import Mapped, mapped_column

from db.clock import Instant, now
from db.models.base import DIGEST_LENGTH, NAME_LENGTH, Base


class AccessToken(Base):
    """A token by its name and its digest; the token itself is nowhere. It stays after it was revoked."""

    __tablename__ = "access_token"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(NAME_LENGTH), unique=True)
    digest: Mapped[str] = mapped_column(String(DIGEST_LENGTH), unique=True)
    created_at: Mapped[datetime] = mapped_column(Instant, default=now())
    revoked_at: Mapped[datetime | None] = mapped_column(Instant)
