"""The digest of an experiment's raw samples: whoever holds the samples can see that they are the same."""

from __future__ import annotations

import hashlib
import json

from sqlalchemy import select
from sqlalchemy.orm import Session

from db.models import Launch, Measurement
from db.samples import OF_LAUNCH, OF_SAMPLE


def samples_digest(session: Session, experiment_id: int) -> str:
    """SHA-256 of all samples of an experiment, launch by launch in the order they were taken: of each a line
    of JSON with arm, index, stage, block, position, item, number, metric, unit and value."""
    query = (
        select(*OF_LAUNCH, *OF_SAMPLE)
        .join(Launch, Launch.id == Measurement.launch_id)
        .where(Launch.experiment_id == experiment_id)
        .order_by(Launch.id, Measurement.id)
    )
    digest = hashlib.sha256()
    for row in session.execute(query):
        digest.update(json.dumps(list(row), separators=(",", ":"), ensure_ascii=False).encode() + b"\n")
    return digest.hexdigest()
