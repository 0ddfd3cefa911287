"""Means of a metric by launch. Launches of an experiment that is done never change, so each is read once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine, func, select
from sqlalchemy.orm import Session

from db.models import Experiment, Launch, Measurement
from db.states import ExperimentState

_Means = dict[int, float]

_KNOWN: WeakKeyDictionary[Engine | Connection, dict[tuple[int, str], tuple[frozenset[int], _Means]]] = (
    WeakKeyDictionary()
)
"""By database, campaign and metric: the experiments that were read, and the means of their launches."""


def launch_means(session: Session, campaign_id: int, metric: str) -> Mapping[int, float]:
    """The mean of a metric by launch, of the campaign's experiments that are done; two statements."""
    cache = _KNOWN.setdefault(session.get_bind(), defaultdict(lambda: (frozenset(), {})))
    known, means = cache[campaign_id, metric]
    done = frozenset(
        session.scalars(
            select(Experiment.id).where(
                Experiment.campaign_id == campaign_id, Experiment.state == ExperimentState.DONE
            )
        )
    )
    new = done - known
    if not new:
        return means
    launches = select(Launch.id).where(Launch.experiment_id.in_(new))
    found = session.execute(
        select(Measurement.launch_id, func.avg(Measurement.value))
        .where(Measurement.launch_id.in_(launches), Measurement.metric == metric)
        .group_by(Measurement.launch_id)
    )
    grown = {**means, **{launch_id: mean for launch_id, mean in found}}  # noqa: C416 - rows, not pairs
    cache[campaign_id, metric] = done, grown
    return grown
