"""Campaigns: each with its objective, what it spent, its best, what it settled, and why it ended."""

from __future__ import annotations

from urllib.parse import urlencode

from pydantic import Field
from sqlalchemy.orm import Session

from dashboard.page import Filters, Ground, Page, Request, Table
from db.event_kinds import EventKind
from db.labels import Noun, parse_label_of
from knowledge.queries.bests import BestView, bests
from knowledge.queries.campaigns import CampaignView, list_campaigns
from knowledge.queries.standing import GROUPS, Group
from knowledge.queries.view import View
from knowledge.stored import number

PATH = "/campaigns"

CHANGED_BY = tuple(
    kind
    for kind in EventKind
    if kind.value.partition(".")[0] in ("campaign", "hypothesis", "experiment", "directive")
)
"""Events that change a campaign or what is known of it."""


class CampaignsFilters(Filters):
    """From where on."""

    limit: int = Field(default=20, ge=1, le=200)
    offset: int = Field(default=0, ge=0, le=2**31)

    def href(self, offset: int) -> str:
        """The address of another page of the list."""
        given = self.model_dump(exclude_defaults=True) | {"offset": offset}
        return f"{PATH}?{urlencode({name: value for name, value in given.items() if value})}"


class CampaignRow(View):
    """A campaign with the best it has told."""

    campaign: CampaignView
    best: BestView | None

    def count(self, group: str) -> int:
        """How many of its hypotheses are in a group's states."""
        return sum(self.campaign.hypotheses.get(state.value, 0) for state in GROUPS[Group(group)])

    @property
    def spent_s(self) -> float:
        """Seconds of its budget that are spent, as the loop counts them."""
        return number(self.campaign.budget.get("spent_s")) or self.campaign.spent.wall_s or 0.0

    @property
    def budget_s(self) -> float | None:
        """Seconds of its budget."""
        return number(self.campaign.budget.get("wall_s"))

    @property
    def spent_percent(self) -> float:
        """The part of the budget that is spent, at most all of it."""
        return round(min(100.0, 100 * self.spent_s / self.budget_s), 2) if self.budget_s else 0.0


class CampaignsView(View):
    """A page of campaigns, newest first."""

    items: tuple[CampaignRow, ...]
    total: int
    limit: int
    offset: int
    running: int


def read(session: Session, request: Request[CampaignsFilters], ground: Ground) -> CampaignsView:
    """Read the page of campaigns that the filters name."""
    asked = request.filters
    page = list_campaigns(session, limit=asked.limit, offset=asked.offset, discovery=False)
    numbers = [parse_label_of(Noun.CAMPAIGN, each.id) for each in page.items]
    best = bests(session, numbers)
    rows = zip(page.items, numbers, strict=True)
    return CampaignsView(
        items=tuple(CampaignRow(campaign=each, best=best.get(n)) for each, n in rows),
        total=page.total,
        limit=page.limit,
        offset=page.offset,
        running=sum(each.standing == "running" for each in page.items),
    )


def command(request: Request[CampaignsFilters]) -> str:
    """The same on the command line."""
    offset = request.filters.offset
    return "autoinfer campaign list" + (f" --offset {offset}" if offset else "")


def table(view: CampaignsView) -> Table:
    """The campaigns as rows."""
    columns = (
        *(
            "id",
            "name",
            "state",
            "model",
            "target",
            "speedup",
            "speedup_low",
            "speedup_high",
            "best_experiment",
        ),
        *(
            "supported",
            "ruled_out",
            "open",
            "active",
            "experiments",
            "spent_s",
            "budget_s",
            "stopped_because",
        ),
    )
    return Table(columns, (_cells(row) for row in view.items))


def _cells(row: CampaignRow) -> tuple[object, ...]:
    each, best = row.campaign, row.best
    told = (None,) * 3 if best is None else (best.speedup, best.low, best.high)
    counts = tuple(row.count(group) for group in ("supported", "ruled-out", "open", "active"))
    spent = (each.spent.experiments, row.spent_s, row.budget_s, each.stopped_because)
    head = (each.id, each.name, each.standing, each.model, each.target)
    return (*head, *told, each.best_experiment, *counts, *spent)


PAGE = Page(
    name="campaigns",
    title="Campaigns",
    path=PATH,
    filters=CampaignsFilters,
    shows=CampaignsView,
    read=read,
    command=command,
    table=table,
    kinds=CHANGED_BY,
)
