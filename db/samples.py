"""Raw samples: stored by the thousand, read back by launch."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from typing import NamedTuple

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from db.models.base import Base
from db.models.experiment import Launch, Measurement
from db.states import Arm

_INSERT = insert(Base.metadata.tables[Measurement.__tablename__])


OF_LAUNCH = (Launch.arm, Launch.index, Launch.stage)
"""What tells which launch of its experiment a sample is of."""

IN_ORDER_OF_LAUNCHES = (Launch.attempt, Launch.index, (Launch.arm == Arm.CONTROL).desc(), Launch.id)
"""The order in which launches, and samples by them, are listed: in each pair the control first."""

OF_SAMPLE = (
    Measurement.block,
    Measurement.position,
    Measurement.item,
    Measurement.seq,
    Measurement.metric,
    Measurement.unit,
    Measurement.value,
)
"""The columns of a sample, in the order of `Sample`: what digests and lists of samples read."""


class Sample(NamedTuple):
    """One raw sample of a launch: its place (block, position in the A/B order, item, seq) and its value."""

    block: int
    position: int
    item: str
    seq: int
    metric: str
    unit: str
    value: float


def insert_samples(session: Session, launch_id: int, samples: Iterable[Sample]) -> int:
    """Store the samples of a launch, in their order, and return how many there were.

    Raises `ValueError` when a value is not a finite number; nothing is stored then.
    """
    samples = list(samples)
    if (odd := next((sample for sample in samples if not isfinite(sample.value)), None)) is not None:
        raise ValueError(f"a measurement must be a finite number: {odd}")
    rows = [{"launch_id": launch_id, **sample._asdict()} for sample in samples]
    if rows:
        session.flush()  # the launch itself may still be pending
        session.connection().execute(_INSERT, rows)
    return len(rows)


def read_samples(session: Session, launch_id: int, metric: str | None = None) -> list[Sample]:
    """Return the samples of a launch in the order they were stored, of one `metric` when given."""
    query = select(*OF_SAMPLE).where(Measurement.launch_id == launch_id)
    if metric is not None:
        query = query.where(Measurement.metric == metric)
    return [Sample(*row) for row in session.execute(query.order_by(Measurement.id))]
