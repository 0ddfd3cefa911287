"""Raw samples as the tools answer them, launch by launch."""

from __future__ import annotations

from sqlalchemy.orm import Session

from configs.errors import UsageError
from dashboard.mcp.answers import Answer, LatencyOnly, Listed, listed
from dashboard.mcp.quoting import told
from db.labels import Noun, format_label
from db.models import Experiment
from db.states import Arm
from knowledge.latency_only import plan_is_latency_only
from knowledge.queries.lookup import labelled
from knowledge.queries.measured.samples import SamplesAsked, samples_page


class Sample(Answer):
    """One raw sample with its place."""

    arm: str
    launch: int
    stage: str
    block: int
    item: str
    metric: str
    unit: str
    value: float


class SamplesAnswer(Listed[Sample]):
    """Raw samples of an experiment, launch by launch; `metrics` are those that there are."""

    metrics: tuple[str, ...]
    latency_only: LatencyOnly


def samples(
    session: Session,
    label: str,
    metric: str | None,
    arm: Arm | None,
    launch: int | None,
    limit: int,
    offset: int,
) -> SamplesAnswer:
    """Raw samples of an experiment, launch by launch."""
    asked = SamplesAsked(arm=arm, launch=launch, metric=metric)
    number = labelled(session, Noun.EXPERIMENT, label)
    found, total, metrics = samples_page(session, number, asked, limit=limit, offset=offset)
    if metric is not None and metric not in metrics:
        known = f"It has {', '.join(metrics)}." if metrics else "It has no sample yet."
        raise UsageError(f"{format_label(Noun.EXPERIMENT, number)} has no samples of {metric!r}.", known)
    items = [
        Sample(
            arm=each.arm.value,
            launch=each.launch,
            stage=each.stage,
            block=each.block,
            item=told(each.item, 80) or "",
            metric=each.metric,
            unit=each.unit,
            value=each.value,
        )
        for each in found
    ]
    page = listed(items, total, offset)
    made_up = plan_is_latency_only(session.get_one(Experiment, number).plan)
    return SamplesAnswer(**dict(page), metrics=metrics, latency_only=made_up)
