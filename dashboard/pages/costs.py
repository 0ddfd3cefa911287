"""Costs: quote, estimate and actual time of experiments by campaign, target, day, outcome and lever; what
stopping early saved."""

from __future__ import annotations

from shlex import quote

from pydantic import Field
from sqlalchemy.orm import Session

from dashboard.page import ALWAYS_S, Filters, Ground, Page, Request, Table
from db.event_kinds import EventKind
from knowledge.queries.costs import CostRow, CostsView, costs
from knowledge.queries.lookup import campaign_filter


class CostsFilters(Filters):
    """Of which campaign; of all of them if not given."""

    campaign: str | None = Field(default=None, max_length=32, description="A campaign's label.")


class CostsPageView(CostsView):
    """What was spent, as the page shows it."""

    @property
    def groups(self) -> tuple[tuple[str, str, tuple[CostRow, ...]], ...]:
        """Name, title and rows of each grouping."""
        return (
            ("campaign", "By campaign", self.campaigns),
            ("target", "By target", self.targets),
            ("day", "By day, UTC", self.days),
            ("outcome", "By outcome", self.outcomes),
            ("lever", "By lever", self.levers),
        )

    def share(self, row: CostRow) -> float:
        """A row's part of all the time, in per cent."""
        return round(100 * row.spent_s / self.total.spent_s, 2) if self.total.spent_s else 0.0


def read(session: Session, request: Request[CostsFilters], ground: Ground) -> CostsPageView:
    """Read what was spent."""
    found = costs(session, campaign_filter(session, request.filters.campaign))
    return CostsPageView.model_construct(**dict(found))


def command(request: Request[CostsFilters]) -> str:
    """The nearest on the command line: the summary ends with what was spent."""
    campaign = request.filters.campaign
    return f"autoinfer summary --campaign {quote(campaign)}" if campaign else "autoinfer campaign list"


def table(view: CostsPageView) -> Table:
    """Every grouping in one table."""
    columns = ("by", *CostRow.model_fields)
    return Table(
        columns,
        (
            (by, *(getattr(each, name) for name in columns[1:]))
            for by, _, rows in view.groups
            for each in rows
        ),
    )


PAGE = Page(
    name="costs",
    title="Costs",
    path="/costs",
    filters=CostsFilters,
    shows=CostsPageView,
    read=read,
    command=command,
    table=table,
    kinds=(EventKind.EXPERIMENT_STARTED, EventKind.EXPERIMENT_FAILED, EventKind.EXPERIMENT_JUDGED),
    lasts_s=ALWAYS_S,
)
