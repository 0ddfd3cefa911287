"""Pareto: latency against quality over all configurations, the front, and what bounds both."""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property
from shlex import quote

from pydantic import Field
from sqlalchemy import select
from sqlalchemy.orm import Session

from configs.errors import UsageError
from dashboard.charts.pareto import Plot, Spot, pareto_plot
from dashboard.page import ALWAYS_S, Filters, Ground, Page, Request, Table
from dashboard.rendering.figures import NARROW, percent
from dashboard.rendering.subjects import subject_url
from db.event_kinds import EventKind
from db.models import Campaign
from knowledge.figures import metric_word, number
from knowledge.queries.lookup import campaign_of, newest_by_concurrency
from knowledge.queries.pareto import NOTHING, FrontRow, ParetoView, PointView, pareto
from knowledge.queries.present.now_floor import PromptFloorView
from knowledge.queries.view import ChangeView

LONGEST_LABEL = 26
"""Characters of a label beside a point."""


class LatencyMetric(StrEnum):
    """What a latency is of; all in ms."""

    TPOT = "tpot"
    TTFT = "ttft"
    ITL = "itl"
    E2EL = "e2el"


UNITS = {
    LatencyMetric.TPOT: "ms per token",
    LatencyMetric.TTFT: "ms to the first token",
    LatencyMetric.ITL: "ms between tokens",
    LatencyMetric.E2EL: "ms end to end",
}


def unit_of(metric: str) -> str:
    """The unit of a latency metric, in words: `ms per token`."""
    known = {f"{each.value}_ms": words for each, words in UNITS.items()}
    return known.get(metric, "ms")


MOST_CONCURRENCY = 65_536
"""Requests at once that may be asked about."""


class ParetoFilters(Filters):
    """Which latency, of which campaign: that of its own objective, and the newest if not said, or the newest
    that is measured at a concurrency. A campaign that is named has its own."""

    metric: LatencyMetric | None = Field(default=None, description="Which latency.")
    campaign: str | None = Field(default=None, max_length=32, description="A campaign's label.")
    concurrency: int | None = Field(
        default=None,
        ge=1,
        le=MOST_CONCURRENCY,
        description="Of the newest campaign at so many requests at once.",
    )


class ParetoShown(ParetoView):
    """The view with what the page draws of it; `concurrencies` are those that campaigns are measured at."""

    concurrencies: tuple[int, ...] = ()

    @property
    def unit(self) -> str:
        """The unit of the latency, in words."""
        return unit_of(self.metric)

    @cached_property
    def plot(self) -> Plot | None:
        """Where everything lies; None where nothing was measured."""
        return plot_of(self)

    @property
    def best(self) -> FrontRow | None:
        """The campaign's best, where it is on the front."""
        return next((row for row in self.front if row.is_best), None)

    @property
    def of_prompt(self) -> bool:
        """Whether the floor is of a lone prompt's first token."""
        return isinstance(self.floor, PromptFloorView)

    @property
    def metric_word(self) -> str:
        """What the latency is called."""
        return metric_word(self.metric)

    @property
    def metrics(self) -> tuple[tuple[str, str, bool], ...]:
        """The latencies to choose from: value, words, whether it is shown."""
        return tuple(
            (each.value, metric_word(f"{each.value}_ms"), f"{each.value}_ms" == self.metric)
            for each in LatencyMetric
        )

    def name(self, row: FrontRow) -> str:
        """What a configuration is called."""
        return short_name(row)


def plot_of(view: ParetoView) -> Plot | None:
    """The plot of a view, for any page; None where there is no baseline to measure against."""
    if view.baseline_ms is None:
        return None
    spots = [
        Spot(
            row.latency_ms,
            row.quality,
            f"{short_name(row)}: {_place(row.latency_ms, row.quality)}",
            subject_url(row.experiment),
            label="best" if row.is_best else _cut(short_name(row)),
            is_best=row.is_best,
            is_baseline=row.is_baseline,
            is_front=True,
        )
        for row in view.front
    ]
    if not any(spot.is_baseline for spot in spots):
        title = f"baseline: {_place(view.baseline_ms, 0.0)}"
        spots.append(Spot(view.baseline_ms, 0.0, title, None, label="baseline", is_baseline=True))
    spots += [
        Spot(each.latency_ms, each.quality, _title(each), subject_url(each.experiment), count=each.count)
        for each in view.points
    ]
    limit, floor = view.quality_limit, view.floor
    return pareto_plot(
        spots,
        limit=limit,
        floor_ms=None if floor is None else floor.ms,
        limit_label="" if limit is None else f"limit {percent(limit)}",
        floor_label="" if floor is None else f"floor {number(floor.ms)}{NARROW}ms",
    )


def short_name(row: FrontRow) -> str:
    """A configuration by what it changes against the baseline: `cpp_wrapper, mtp, draft_tokens 1`."""
    return "baseline" if row.is_baseline else ", ".join(map(_changed, row.change)) or "the same knobs"


def _changed(change: ChangeView) -> str:
    knob = change.knob.rpartition(".")[2]
    if isinstance(change.after, str):
        return change.after if change.after != "none" else f"no {change.knob.partition('.')[0]}"
    return f"no {knob}" if change.after is None else f"{knob} {change.after}"


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_LABEL else f"{text[: LONGEST_LABEL - 1].rstrip(', ')}…"


def _place(latency_ms: float, quality: float) -> str:
    return f"{number(latency_ms)}{NARROW}ms, bits per byte {percent(quality, 2)}"


def _title(point: PointView) -> str:
    place = _place(point.latency_ms, point.quality)
    if point.count == 1:
        return f"{point.experiment}: {place}"
    return f"{point.count} configurations about {place}; {point.experiment} is the fastest of them"


def read(session: Session, request: Request[ParetoFilters], ground: Ground) -> ParetoShown:
    """Read the campaign that the filters name."""
    asked = request.filters
    if asked.campaign is None and session.scalar(select(Campaign.id).limit(1)) is None:
        return ParetoShown(**dict(NOTHING))
    newest = newest_by_concurrency(session)
    if asked.campaign is None and asked.concurrency is not None:
        campaign_id = newest.get(asked.concurrency)
        if campaign_id is None:
            known = ", ".join(map(str, sorted(newest))) or "none"
            raise UsageError(
                f"No campaign is measured at concurrency {asked.concurrency}; there is {known}.",
                "Choose one of these, or leave it out.",
            )
    else:
        campaign_id = campaign_of(session, asked.campaign)
    found = pareto(session, campaign_id, None if asked.metric is None else f"{asked.metric.value}_ms")
    return ParetoShown(**dict(found), concurrencies=tuple(sorted(newest)))


def command(request: Request[ParetoFilters]) -> str:
    """The campaign's experiments on the command line."""
    campaign = request.filters.campaign
    return "autoinfer experiments" + (f" --campaign {quote(campaign)}" if campaign else "")


COLUMNS = (
    "experiment",
    "configuration",
    "latency_ms",
    "low_ms",
    "high_ms",
    "bits_per_byte_relative",
    "bits_per_byte_low",
    "bits_per_byte_high",
    "outcome",
    "within_limit",
    "count",
)


def table(view: ParetoShown) -> Table:
    """The front, then what lies behind it."""
    front = (
        (
            row.experiment,
            short_name(row),
            row.latency_ms,
            row.low_ms,
            row.high_ms,
            row.quality,
            row.quality_low,
            row.quality_high,
            row.outcome.value if row.outcome else None,
            row.within_limit,
            1,
        )
        for row in view.front
    )
    behind = (
        (each.experiment, None, each.latency_ms, None, None, each.quality, None, None, None, None, each.count)
        for each in view.points
    )
    return Table(COLUMNS, (*front, *behind))


PAGE = Page(
    name="pareto",
    title="Pareto",
    path="/pareto",
    filters=ParetoFilters,
    shows=ParetoShown,
    read=read,
    command=command,
    table=table,
    kinds=(
        EventKind.CAMPAIGN_STARTED,
        EventKind.CAMPAIGN_BASELINE,
        EventKind.CAMPAIGN_PROFILED,
        EventKind.CAMPAIGN_BEST,
        EventKind.EXPERIMENT_JUDGED,
        EventKind.EXPERIMENT_REPRODUCED,
    ),
    lasts_s=ALWAYS_S,
)
