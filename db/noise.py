"""Noise profiles as they lie in the database: how large each one is, and how old."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import distinct, func, select
from sqlalchemy.orm import Session

from db.clock import now
from db.models import NoiseLaunch

SERIES_NAME = "A/A"
"""The name of a row of `campaign` that holds an A/A series: no user's campaign may have a slash in its."""


@dataclass(frozen=True)
class StoredProfile:
    """A target's noise launches of one model and metric: how many, in how many windows, how old the newest
    is in seconds."""

    target_key: str
    model_fingerprint: str
    metric: str
    launches: int
    windows: int
    newest_at: datetime
    age_s: float

    @property
    def degrees_of_freedom(self) -> int:
        """As `experiments.measurement.noise`: launches less windows."""
        return self.launches - self.windows


def stored_profiles(session: Session, target_key: str | None = None) -> list[StoredProfile]:
    """Every profile (of one target, if named), the largest first."""
    query = (
        select(
            NoiseLaunch.target_key,
            NoiseLaunch.model_fingerprint,
            NoiseLaunch.metric,
            func.count(),
            func.count(distinct(NoiseLaunch.window)),
            func.max(NoiseLaunch.created_at),
            select(now()).scalar_subquery(),
        )
        .group_by(NoiseLaunch.target_key, NoiseLaunch.model_fingerprint, NoiseLaunch.metric)
        .order_by(func.count().desc(), NoiseLaunch.model_fingerprint, NoiseLaunch.metric)
    )
    if target_key is not None:
        query = query.where(NoiseLaunch.target_key == target_key)
    return [
        StoredProfile(*row[:6], max(0.0, (row[6] - row[5]).total_seconds())) for row in session.execute(query)
    ]
