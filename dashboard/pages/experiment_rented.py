"""The rented machine of an experiment: what was asked for, what it got, and what its GPU did all the time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from dashboard.charts.sparkline import polylines
from dashboard.device_views import GIB, got_words
from dashboard.rented import RUNS, RentedFrom, rented_from
from db.labels import Noun, format_label
from db.models import RemoteRun
from db.models.device import DeviceMean
from db.states import RemoteRunState
from experiments.remote.extras import GPU_NAME, read_samples
from experiments.telemetry.history import Moment, means_of
from experiments.telemetry.means import WINDOW_S
from knowledge.queries.view import View

STEPS = 120
"""Most steps that a curve has over a run."""

MOST_BYTES = 1024 * 1024
"""Of a copy of samples that is drawn second by second, three quarters of an hour; of a longer run the
five-minute means are."""

_SHOWN = (
    ("utilization_percent", "Utilization", "%", 1.0, (0.0, 100.0)),
    ("memory_used_bytes", "Memory", "GiB", float(GIB), None),
    ("power_w", "Power", "W", 1.0, None),
    ("temperature_c", "Temperature", "°C", 1.0, (20.0, 100.0)),
    ("clock_mhz", "Clock", "MHz", 1.0, None),
)
"""A reading, its label and unit, what it is divided by, and what its curve reaches from and to: from 0 to its
highest where that is not said."""


class RunReading(View):
    """A reading over a run: the mean of what was told, None for not told; `series` has the means in steps
    from the first sample on, None for a step without any, `spark` the same as points of polylines."""

    name: str
    label: str
    unit: str
    mean: float | None
    highest: float | None
    series: tuple[float | None, ...]
    spark: tuple[str, ...]


class RentedRunView(View):
    """The run of an experiment on a rented machine, the newest where there were several.

    `source` says in words what the curves rest on, None where nothing was told; `step_s` is what a step of
    them averages, `share_read` the share of seconds (or windows) from first to last that have a reading.
    """

    rented: RentedFrom
    job: str
    live: bool
    source: str | None
    first: datetime | None
    last: datetime | None
    step_s: float | None
    share_read: float | None
    throttled_share: float | None
    readings: tuple[RunReading, ...]


@dataclass(frozen=True)
class _Found:
    """What was told of a GPU over a run, by steps; as `RentedRunView` has it."""

    got: str
    source: str
    first: datetime
    last: datetime
    step_s: float
    share_read: float
    throttled_share: float | None
    series: Mapping[str, tuple[float | None, ...]]


def rented_run(session: Session, data_dir: Path, experiment_id: int) -> RentedRunView | None:
    """What is known of the experiment's rented machine; None where it ran on none."""
    query = select(RemoteRun).where(RemoteRun.experiment_id == experiment_id).order_by(RemoteRun.id.desc())
    run = session.scalars(query.limit(1)).one_or_none()
    rented = None if run is None else rented_from(run.target)
    if run is None or rented is None:
        return None
    job = format_label(Noun.JOB, run.job_id)
    found = _of_samples(data_dir / RUNS / run.key) or _of_means(session, run, job)
    return RentedRunView(
        rented=rented if found is None else rented.model_copy(update={"got": found.got}),
        job=job,
        live=run.state is not RemoteRunState.ENDED,
        source=None if found is None else found.source,
        first=None if found is None else found.first,
        last=None if found is None else found.last,
        step_s=None if found is None else found.step_s,
        share_read=None if found is None else round(found.share_read, 4),
        throttled_share=None if found is None else found.throttled_share,
        readings=() if found is None else tuple(_readings(found.series)),
    )


def _of_samples(folder: Path) -> _Found | None:
    """From the copy of the samples; None where there is none, or too long a one."""
    try:
        told = (folder / GPU_NAME).stat()
    except OSError:
        return None
    return _steps(folder, told.st_size, told.st_mtime_ns) if 0 < told.st_size <= MOST_BYTES else None


@lru_cache(maxsize=32)
def _steps(folder: Path, size: int, changed_ns: int) -> _Found | None:
    """The same of a copy of this size that changed then, once for everybody who looks."""
    samples, _ = read_samples(folder, 0)
    moments: list[Moment] = [(each.at, each.devices[0]) for each in samples if each.devices]
    if not moments:
        return None
    first, last = moments[0][0], moments[-1][0]
    span_s = max(1.0, (last - first).total_seconds() + 1)
    step_s = max(1, math.ceil(span_s / STEPS))
    count = int(last.timestamp()) // step_s - int(first.timestamp()) // step_s + 1
    fields = [field for field, *_ in _SHOWN]
    steps = means_of(moments, fields, last, step_s, count)
    told = [bool(reading.throttle) for _, reading in moments if reading.throttle is not None]
    throttled = sum(told) / len(told) if told else None
    share = min(1.0, len({int(at.timestamp()) for at, _ in moments}) / span_s)
    series = dict(zip(fields, steps, strict=True))
    got = got_words(moments[-1][1])
    source = "samples, one a second"
    return _Found(got, source, first, last, float(step_s), share, throttled, series)


def _of_means(session: Session, run: RemoteRun, job: str) -> _Found | None:
    """From the five-minute means in the database, which stay when the copy of the samples is gone."""
    window = timedelta(seconds=WINDOW_S)
    query = select(DeviceMean).where(
        DeviceMean.host == run.target,
        DeviceMean.device == job,
        DeviceMean.started_at > run.created_at - window,
    )
    if run.ended_at is not None:
        query = query.where(DeviceMean.started_at <= run.ended_at)
    rows = list(session.scalars(query.order_by(DeviceMean.started_at)))
    if not rows:
        return None
    first, last = rows[0].started_at, rows[-1].started_at
    count = round((last - first) / window) + 1
    series: dict[str, tuple[float | None, ...]] = {}
    for field, *_ in _SHOWN:
        values: list[float | None] = [None] * count
        for row in rows:
            values[round((row.started_at - first) / window)] = getattr(row, field)
        series[field] = tuple(values)
    told = [(row.throttled_share, row.samples) for row in rows if row.throttled_share is not None]
    samples = sum(count for _, count in told)
    throttled = sum(share * count for share, count in told) / samples if samples else None
    share = len(rows) / count
    source = "means of five minutes"
    return _Found(rows[-1].model, source, first, last + window, WINDOW_S, share, throttled, series)


def _readings(series: Mapping[str, tuple[float | None, ...]]) -> Iterator[RunReading]:
    for field, label, unit, scale, reach in _SHOWN:
        values = tuple(None if value is None else round(value / scale, 3) for value in series[field])
        known = [value for value in values if value is not None]
        low, high = reach or (0.0, max(known, default=0.0) or 1.0)
        yield RunReading(
            name=field.rpartition("_")[0].removesuffix("_used"),
            label=label,
            unit=unit,
            mean=_mean(known),
            highest=max(known, default=None),
            series=values,
            spark=polylines(values, low, high),
        )


def _mean(values: Sequence[float]) -> float | None:
    return round(sum(values) / len(values), 3) if values else None
