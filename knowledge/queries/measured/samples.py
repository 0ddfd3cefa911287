"""Raw samples of an experiment: read in pieces, told by their spread, and those of one metric by arm."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, func, or_, select
from sqlalchemy.orm import Session

from db.models import Launch, Measurement
from db.samples import IN_ORDER_OF_LAUNCHES, OF_LAUNCH, OF_SAMPLE
from db.states import Arm
from experiments.measurement.evidence import Metric, Stage
from knowledge.queries.measured.spread import SpreadView, spread_at
from knowledge.queries.view import View

PIECE = 2000
"""Samples that are held at a time while all of an experiment's are read."""


class SampleView(View):
    """One raw sample, with its place."""

    arm: Arm
    launch: int
    stage: str
    block: int
    position: int
    item: str
    seq: int
    metric: str
    unit: str
    value: float


class UsedSampleView(SampleView):
    """One raw sample, and the stages that used it, its own first: that of a kept evaluation several did."""

    used_by: tuple[str, ...]


@dataclass(frozen=True)
class SamplesAsked:
    """Which samples of an experiment: those of an arm, a launch of it, a stage, a metric."""

    arm: Arm | None = None
    launch: int | None = None
    stage: str | None = None
    metric: str | None = None


EVERY_SAMPLE = SamplesAsked()


def stored_samples(
    session: Session, experiment_id: int, asked: SamplesAsked = EVERY_SAMPLE
) -> Iterator[SampleView]:
    """Give the raw samples of an experiment that are asked for, launch by launch, in bounded memory."""
    query = _samples(experiment_id, asked).execution_options(yield_per=PIECE)
    return map(_sample_view, session.execute(query))


def samples_once(
    session: Session, experiment_id: int, used_by: Mapping[int, tuple[str, ...]]
) -> Iterator[UsedSampleView]:
    """Give the raw samples of an experiment with the stages that used them, `used_by` the id of their launch;
    those of a launch with no stage there stand with another one, and are left out. A launch that isn't there
    was used by its own stage alone."""
    query = _samples(experiment_id, EVERY_SAMPLE).add_columns(Launch.id)
    query = query.where(Launch.id.not_in([number for number, stages in used_by.items() if not stages]))
    for *place, number in session.execute(query.execution_options(yield_per=PIECE)):
        sample = _sample_view(place)
        stages = used_by.get(number, (sample.stage,))
        yield UsedSampleView(**dict(sample), used_by=stages)


def samples_page(
    session: Session, experiment_id: int, asked: SamplesAsked, *, limit: int, offset: int
) -> tuple[tuple[SampleView, ...], int, tuple[str, ...]]:
    """Return some of the samples that are asked for, how many there are, and the experiment's metrics."""
    query = _samples(experiment_id, asked)
    total = session.scalar(select(func.count()).select_from(query.order_by(None).subquery())) or 0
    found = tuple(map(_sample_view, session.execute(query.limit(limit).offset(offset))))
    metrics = session.scalars(
        select(Measurement.metric)
        .join(Launch, Launch.id == Measurement.launch_id)
        .where(Launch.experiment_id == experiment_id)
        .distinct()
        .order_by(Measurement.metric)
    )
    return found, total, tuple(metrics)


def _samples(experiment_id: int, asked: SamplesAsked) -> Select[*tuple[Any, ...]]:
    query: Select[*tuple[Any, ...]] = (
        select(*OF_LAUNCH, *OF_SAMPLE)
        .join(Measurement, Measurement.launch_id == Launch.id)
        .where(Launch.experiment_id == experiment_id)
        .order_by(*IN_ORDER_OF_LAUNCHES, Measurement.seq, Measurement.id)
    )
    for column, wanted in (
        (Launch.arm, asked.arm),
        (Launch.index, asked.launch),
        (Launch.stage, asked.stage),
        (Measurement.metric, asked.metric),
    ):
        if wanted is not None:
            query = query.where(column == wanted)
    return query


def _sample_view(row: Iterable[Any]) -> SampleView:
    arm, launch, stage, block, position, item, seq, metric, unit, value = tuple(row)
    return SampleView(
        arm=arm,
        launch=launch,
        stage=stage,
        block=block,
        position=position,
        item=item,
        seq=seq,
        metric=metric,
        unit=unit,
        value=value,
    )


def values_by_arm(
    session: Session, experiment_id: int, metric: str, stages: Sequence[str]
) -> dict[Arm, list[float]]:
    """Return the samples of one metric in these stages by arm, ascending, of the last attempt alone."""
    last = select(func.max(Launch.attempt)).where(Launch.experiment_id == experiment_id).scalar_subquery()
    query = (
        select(Launch.arm, Measurement.value)
        .join(Measurement, Measurement.launch_id == Launch.id)
        .where(
            Launch.experiment_id == experiment_id,
            Launch.attempt == last,
            Launch.stage.in_(stages),
            Measurement.metric == metric,
        )
        .order_by(Measurement.value)
    )
    found: dict[Arm, list[float]] = {}
    for arm, value in session.execute(query):
        found.setdefault(arm, []).append(value)
    return found


def launch_spreads(
    session: Session, experiment_id: int, judged: str | None = None
) -> dict[int, tuple[SpreadView, ...]]:
    """Return the spread of each metric of each launch of an experiment, by the launch's id, without what was
    measured of further workloads.

    The database ranks the samples, so that of each only the few at the quantiles are read. Gaps between
    tokens are left out unless they are the metric that is `judged`: there is one a token, and TPOT sums them
    up.
    """
    found: dict[int, dict[tuple[str, str], tuple[int, float, dict[int, float]]]] = defaultdict(dict)
    for launch_id, metric, unit, count, mean, place, value in session.execute(
        _quantiles(experiment_id, judged)
    ):
        _, _, values = found[launch_id].setdefault((metric, unit), (count, mean, {}))
        values[place] = value
    return {
        launch_id: tuple(
            spread_at(metric, unit, count, mean, values)
            for (metric, unit), (count, mean, values) in sorted(told.items())
        )
        for launch_id, told in found.items()
    }


def _quantiles(experiment_id: int, judged: str | None) -> Select[Any]:
    left_out = [Metric.ITL_MS.value] if judged != Metric.ITL_MS.value else []
    within = (Measurement.launch_id, Measurement.metric, Measurement.unit)
    ranked = (
        select(
            Measurement.launch_id,
            Measurement.metric,
            Measurement.unit,
            Measurement.value,
            (func.row_number().over(partition_by=within, order_by=Measurement.value) - 1).label("place"),
            (func.count().over(partition_by=within)).label("count"),
            (func.avg(Measurement.value).over(partition_by=within)).label("mean"),
        )
        .join(Launch, Launch.id == Measurement.launch_id)
        .where(
            Launch.experiment_id == experiment_id,
            Launch.stage != Stage.FURTHER.value,
            Measurement.metric.not_in(left_out),
        )
        .subquery()
    )
    row = ranked.c
    last = row.count - 1
    below = (last // 10, last // 2, 9 * last // 10)
    return select(row.launch_id, row.metric, row.unit, row.count, row.mean, row.place, row.value).where(
        or_(*(or_(row.place == each, row.place == each + 1) for each in below))
    )
