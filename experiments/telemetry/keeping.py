"""Means of devices into the database, and out of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, fields
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from db.models.device import DeviceMean as Row
from experiments.telemetry.means import DeviceMean

_FIELDS = tuple(each.name for each in fields(DeviceMean))


def keep(session: Session, means: Iterable[DeviceMean]) -> None:
    """Store means; of a window that is there already the one that was read for longer stays, so that two
    writers do no harm."""
    for mean in means:
        row = session.get(Row, (mean.host, mean.device, mean.started_at))
        if row is None or _mean_of(row).least_read_s <= mean.least_read_s:
            session.merge(Row(**asdict(mean)))


def kept(session: Session, since: datetime) -> tuple[DeviceMean, ...]:
    """The means of all devices from windows that began then or later, by device, oldest first."""
    query = select(Row).where(Row.started_at >= since).order_by(Row.host, Row.device, Row.started_at)
    return tuple(_mean_of(row) for row in session.scalars(query))


def _mean_of(row: Row) -> DeviceMean:
    return DeviceMean(**{name: getattr(row, name) for name in _FIELDS})
