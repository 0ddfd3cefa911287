"""Costs: quote, estimate and actual time of experiments by campaign, target, day, outcome and lever, what
stopping early saved, and the dollars of rented machines."""

from __future__ import annotations

from itertools import chain
from shlex import quote

from pydantic import Field
from sqlalchemy.orm import Session

from configs.quantities import format_usd
from dashboard.page import ALWAYS_S, Filters, Ground, Page, Request, Table
from db.event_kinds import EventKind
from knowledge.queries.costs import CostRow, CostsView, costs
from knowledge.queries.lookup import campaign_filter
from knowledge.queries.money import MoneyRow


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

    @property
    def paid(self) -> tuple[tuple[str, str, tuple[MoneyRow, ...]], ...]:
        """Name, title and rows of each grouping in dollars."""
        return (
            ("paid target", "Dollars by target", self.money.targets),
            ("paid day", "Dollars by day, UTC", self.money.days),
            ("paid campaign", "Dollars by campaign", self.money.campaigns),
        )

    @property
    def amount_words(self) -> str:
        """What rented machines cost, as it stands in the sentence above."""
        total = self.money.total
        if not total.runs:
            return "no money"
        known = total.actual_usd + total.unknown_usd
        most = f", at most {format_usd(total.reserved_usd)} in flight" if total.open else ""
        return f"{format_usd(known)} of rented machines ({total.rests_on}){most}"

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
    """Every grouping in one table, in seconds, and those in dollars behind."""
    columns = ("by", *CostRow.model_fields)
    dollars = tuple(name for name in MoneyRow.model_fields if name != "name")
    nothing = (None,) * len(dollars)
    timed = (
        (by, *(getattr(each, name) for name in columns[1:]), *nothing)
        for by, _, rows in view.groups
        for each in rows
    )
    blank = (None,) * (len(columns) - 2)
    paid = (
        (by, each.name, *blank, *(getattr(each, name) for name in dollars))
        for by, _, rows in view.paid
        for each in rows
    )
    return Table((*columns, *dollars), chain(timed, paid))


PAGE = Page(
    name="costs",
    title="Costs",
    path="/costs",
    filters=CostsFilters,
    shows=CostsPageView,
    read=read,
    command=command,
    table=table,
    kinds=(
        EventKind.EXPERIMENT_STARTED,
        EventKind.EXPERIMENT_FAILED,
        EventKind.EXPERIMENT_JUDGED,
        EventKind.JOB_QUOTED,
        EventKind.JOB_HELD,
        EventKind.JOB_APPROVED,
        EventKind.JOB_SETTLED,
        EventKind.BUDGET_SET,
    ),
    lasts_s=ALWAYS_S,
)
