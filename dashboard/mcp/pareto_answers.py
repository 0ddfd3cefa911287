"""Latency against quality as the tools answer it."""

from __future__ import annotations

from pydantic import Field
from sqlalchemy.orm import Session

from dashboard.mcp.answers import Answer, Change, LatencyOnly, changes
from knowledge.queries.lookup import campaign_of
from knowledge.queries.pareto import pareto as pareto_view

MOST_FRONT = 25
"""Configurations of the front that are told."""


class FrontItem(Answer):
    """A configuration that none beats in both latency and quality; intervals of 95 %."""

    experiment: str | None = Field(
        description="The test that places it, never a rerun or check: the best's is the one that made it. "
        "None for the baseline."
    )
    change: tuple[Change, ...] = Field(description="Against the baseline.")
    outcome: str | None
    latency_ms: float
    low_ms: float | None
    high_ms: float | None
    bits_per_byte_percent: float = Field(description="Change of bits per byte; less is better.")
    within_limit: bool
    is_baseline: bool
    is_best: bool


class ParetoAnswer(Answer):
    """Latency against quality: the front by rising latency, with the baseline and the best so far."""

    campaign: str | None
    latency_only: LatencyOnly
    metric: str
    concurrency: int | None
    quality_limit_percent: float | None
    baseline_ms: float | None
    floor_ms: float | None = Field(description="The least that physics allows.")
    front: tuple[FrontItem, ...]
    front_left_out: int
    configurations: int = Field(description="How many were timed and scored.")


def pareto(session: Session, label: str | None, metric: str | None) -> ParetoAnswer:
    """Latency against quality, with the incumbent."""
    found = pareto_view(session, campaign_of(session, label), metric)
    front = found.front
    if len(front) > MOST_FRONT:  # what one looks for first is never left out
        wanted = [each for each in front if each.is_best or each.is_baseline]
        rest = [each for each in front if not (each.is_best or each.is_baseline)]
        front = tuple(sorted((*wanted, *rest[: MOST_FRONT - len(wanted)]), key=lambda each: each.latency_ms))
    return ParetoAnswer(
        campaign=found.campaign,
        latency_only=found.latency_only,
        metric=found.metric,
        concurrency=found.concurrency,
        quality_limit_percent=None if found.quality_limit is None else 100 * found.quality_limit,
        baseline_ms=found.baseline_ms,
        floor_ms=None if found.floor is None else found.floor.ms,
        front=tuple(
            FrontItem(
                experiment=each.experiment,
                change=changes(each.change),
                outcome=None if each.outcome is None else each.outcome.value,
                latency_ms=each.latency_ms,
                low_ms=each.low_ms,
                high_ms=each.high_ms,
                bits_per_byte_percent=round(100 * each.quality, 4),
                within_limit=each.within_limit,
                is_baseline=each.is_baseline,
                is_best=each.is_best,
            )
            for each in front
        ),
        front_left_out=len(found.front) - len(front),
        configurations=found.configurations,
    )
