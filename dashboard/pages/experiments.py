"""Experiments: past, running and planned; filtered, searched, sorted and cut into pages by the database."""

from __future__ import annotations

import shlex
from enum import StrEnum
from typing import Any
from urllib.parse import urlencode

from pydantic import Field
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from dashboard.page import ALWAYS_S, Filters, Ground, Page, Request, Table
from db.event_kinds import EventKind
from db.models import Hypothesis
from db.models.base import NAME_LENGTH
from db.states import ExperimentKind, ExperimentState, HypothesisState, VerdictOutcome
from knowledge.queries.lookup import campaign_filter
from knowledge.queries.measured.experiments import (
    ExperimentCounts,
    ExperimentRow,
    ExperimentsAsked,
    ExperimentSort,
    count_experiments,
    find_experiments,
)
from knowledge.queries.view import View

PATH = "/experiments"
PAGE_ROWS, MOST_ROWS = 25, 500
LARGEST_OFFSET = 10**9

CHANGED_BY = tuple(
    kind
    for kind in EventKind
    if kind.value.partition(".")[0] in ("experiment", "stage", "job", "hypothesis", "campaign")
)
"""Events that may change a line of the list."""


class Order(StrEnum):
    """Which end comes first."""

    ASCENDING = "asc"
    DESCENDING = "desc"


class ExperimentsFilters(Filters):
    """Which experiments, in which order, from where on."""

    q: str | None = Field(
        default=None, max_length=200, description="Text in the claim, reason, failure; or a label."
    )
    state: tuple[ExperimentState, ...] = Field(default=(), description="Only these states.")
    kind: tuple[ExperimentKind, ...] = Field(default=(), description="Only these kinds.")
    outcome: tuple[VerdictOutcome, ...] = Field(default=(), description="Only these outcomes.")
    lever: str | None = Field(
        default=None, max_length=NAME_LENGTH, description="A lever that the change touches."
    )
    campaign: str | None = Field(default=None, max_length=32, description="A campaign's label.")
    sort: ExperimentSort = ExperimentSort.ID
    order: Order = Order.DESCENDING
    limit: int = Field(default=PAGE_ROWS, ge=1, le=MOST_ROWS)
    offset: int = Field(default=0, ge=0, le=LARGEST_OFFSET)

    @property
    def narrowed(self) -> bool:
        """Whether anything is left out."""
        return bool(self.q or self.state or self.kind or self.outcome or self.lever or self.campaign)

    def href(self, **changes: Any) -> str:
        """The address of the list with other values; it begins on the first page unless that is one."""
        values = {**self.model_dump(mode="json", exclude_defaults=True), "offset": 0, **changes}
        given = ExperimentsFilters(**values).model_dump(mode="json", exclude_defaults=True)
        return f"{PATH}?{urlencode(given, doseq=True)}" if given else PATH

    def sorted_by(self, sort: str) -> str:
        """The address of the list by this column; by the other end where it is sorted so already."""
        turned = self.sort == sort and self.order is Order.DESCENDING
        return self.href(sort=sort, order="asc" if turned else "desc")


class ExperimentsView(View):
    """A page of experiments: `total` counts all that match, `counts` all there are, `waiting` the hypotheses
    in the queue, which have no experiment yet."""

    items: tuple[ExperimentRow, ...]
    total: int
    limit: int
    offset: int
    counts: ExperimentCounts
    waiting: int


def read(session: Session, request: Request[ExperimentsFilters], ground: Ground) -> ExperimentsView:
    """Read the page of experiments that the filters name."""
    asked = request.filters
    campaign_id = campaign_filter(session, asked.campaign)
    page = find_experiments(
        session,
        ExperimentsAsked(
            campaign_id=campaign_id,
            states=asked.state,
            kinds=asked.kind,
            outcomes=asked.outcome,
            lever=asked.lever,
            text=asked.q,
            sort=asked.sort,
            descending=asked.order is Order.DESCENDING,
        ),
        limit=asked.limit,
        offset=asked.offset,
    )
    waiting = select(func.count()).where(
        Hypothesis.state.in_([HypothesisState.PROPOSED, HypothesisState.QUEUED])
    )
    if campaign_id is not None:
        waiting = waiting.where(Hypothesis.campaign_id == campaign_id)
    return ExperimentsView(
        items=page.items,
        total=page.total,
        limit=page.limit,
        offset=page.offset,
        counts=count_experiments(session, campaign_id),
        waiting=session.scalar(waiting) or 0,
    )


def command(request: Request[ExperimentsFilters]) -> str:
    """The same on the command line."""
    asked = request.filters
    words = ["autoinfer", "experiments"]
    for option, values in (("--state", asked.state), ("--kind", asked.kind), ("--outcome", asked.outcome)):
        for value in values:
            words += [option, value.value]
    for option, given in (("--lever", asked.lever), ("--search", asked.q), ("--campaign", asked.campaign)):
        if given:
            words += [option, given]
    if asked.sort is not ExperimentSort.ID:
        words += ["--sort", asked.sort.value]
    if asked.order is Order.ASCENDING:
        words.append("--reverse")
    if asked.limit != PAGE_ROWS:
        words += ["--limit", str(asked.limit)]
    if asked.offset:
        words += ["--offset", str(asked.offset)]
    return shlex.join(words)


def table(view: ExperimentsView) -> Table:
    """The experiments as rows; effects are relative changes, negative is better."""
    columns = (
        "id",
        "campaign",
        "kind",
        "state",
        "outcome",
        "latency_only",
        "hypothesis",
        "claim",
        "lever",
        "change",
        "metric",
        "predicted",
        "predicted_low",
        "predicted_high",
        "effect",
        "effect_low",
        "effect_high",
        "wall_s",
        "started_at",
        "finished_at",
        "reason",
    )
    return Table(columns, (_cells(row) for row in view.items))


def _cells(row: ExperimentRow) -> tuple[object, ...]:
    shown = row.effect or row.predicted
    return (
        row.id,
        row.campaign,
        row.kind.value,
        row.state.value,
        row.outcome.value if row.outcome else None,
        row.latency_only,
        row.hypothesis,
        row.claim,
        row.lever,
        [each.model_dump(mode="json") for each in row.change],
        shown.metric if shown else None,
        *_effect_cells(row.predicted),
        *_effect_cells(row.effect),
        row.wall_s,
        row.started_at.isoformat() if row.started_at else None,
        row.finished_at.isoformat() if row.finished_at else None,
        row.reason or row.failure,
    )


def _effect_cells(effect: Any) -> tuple[float | None, float | None, float | None]:
    return (None, None, None) if effect is None else (effect.relative, effect.low, effect.high)


PAGE = Page(
    name="experiments",
    title="Experiments",
    path=PATH,
    filters=ExperimentsFilters,
    shows=ExperimentsView,
    read=read,
    command=command,
    table=table,
    kinds=CHANGED_BY,
    lasts_s=ALWAYS_S,
)
