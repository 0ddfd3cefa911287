"""What stands around every page: the campaigns to choose from, the one that was chosen, what waits."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from configs.errors import UsageError
from dashboard.navigation import ENTRIES, Entry, Place
from dashboard.page import Page, Request
from db.labels import Noun, format_label, parse_label_of
from db.models import Campaign, Hypothesis
from db.states import CampaignState, HypothesisState
from knowledge.queries.spent.paid_runs import Unattended, runs_in_flight, unattended
from knowledge.queries.view import View

MOST_CAMPAIGNS = 12
"""Campaigns in the switcher, newest first; the page of campaigns lists all."""

OF_ONE_CAMPAIGN = frozenset({"hypothesis", "offset"})
"""Filters that mean nothing in another campaign: what is in it, and how far its list was leafed through."""


class Choice(View):
    """A campaign to look at instead; `url` is this page of it, or the first page."""

    id: str
    name: str
    model: str
    target: str
    state: CampaignState
    url: str


class Link(View):
    """A page in the bar; `count` is how many wait there."""

    title: str
    url: str
    letter: str
    place: Place
    current: str | None
    count: int | None


class Shell(View):
    """The bar: `shown` is the campaign asked for, else the newest; None where there is none. `in_flight` runs
    on rented machines may still cost money; `unattended` are those that no worker looks after."""

    campaigns: tuple[Choice, ...]
    shown: Choice | None
    all_url: str | None
    links: tuple[Link, ...]
    in_flight: int
    unattended: Unattended | None


_NEWEST = select(Campaign).order_by(Campaign.id.desc()).limit(MOST_CAMPAIGNS)
_WAITING = select(func.count()).where(Hypothesis.state == HypothesisState.QUEUED)


def shell_of(session: Session, page: Page[Any, Any], request: Request[Any], address: str) -> Shell:
    """Read the bar of a page that was read already, so that its filters are known to make sense."""
    asked: str | None = getattr(request.filters, "campaign", None)
    given = request.filters.model_dump(mode="json", exclude_defaults=True)
    filters_by_it = "campaign" in page.filters.model_fields
    elsewhere = {name: value for name, value in given.items() if name not in OF_ONE_CAMPAIGN}
    choices = tuple(
        Choice(
            id=(label := format_label(Noun.CAMPAIGN, each.id)),
            name=each.name,
            model=each.model,
            target=short_target(each.target),
            state=each.state,
            url=_url(address, {**elsewhere, "campaign": label})
            if filters_by_it
            else _url("/", {"campaign": label}),
        )
        for each in session.scalars(_NEWEST)
    )
    number = _number(asked)
    wanted = None if number is None else format_label(Noun.CAMPAIGN, number)
    shown = next(
        (each for each in choices if each.id == wanted), choices[0] if choices and wanted is None else None
    )
    waiting = _WAITING if shown is None else _WAITING.where(Hypothesis.campaign_id == _number(shown.id))
    queued = session.scalar(waiting) or 0
    in_flight = runs_in_flight(session)
    return Shell(
        campaigns=choices,
        shown=shown,
        all_url=_url(address, {name: value for name, value in elsewhere.items() if name != "campaign"})
        if asked is not None
        else None,
        links=tuple(_link(entry, page.path, asked, queued) for entry in ENTRIES),
        in_flight=in_flight,
        unattended=unattended(session) if in_flight else None,
    )


def links() -> tuple[Link, ...]:
    """The bar where nothing can be read, as on the page of an error."""
    return tuple(_link(entry, None, None, 0) for entry in ENTRIES)


def short_target(target: str) -> str:
    """The device of a target without its host: `cpu:Intel(R) Xeon(R):2 cores` is `Intel(R) Xeon(R)`."""
    parts = target.split(":")
    return parts[1] if len(parts) > 1 and parts[1] else target


def _link(entry: Entry, path: str | None, campaign: str | None, queued: int) -> Link:
    return Link(
        title=entry.title,
        url=entry.path if campaign is None else _url(entry.path, {"campaign": campaign}),
        letter=entry.letter,
        place=entry.place,
        current="page" if path == entry.path else "true" if path is not None and entry.holds(path) else None,
        count=queued if entry.name == "queue" and queued else None,
    )


def _number(label: str | None) -> int | None:
    try:
        return None if label is None else parse_label_of(Noun.CAMPAIGN, label)
    except UsageError:
        return None


def _url(path: str, query: dict[str, Any]) -> str:
    return f"{path}?{urlencode(query, doseq=True)}" if query else path
