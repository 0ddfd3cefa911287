"""Log: every event, newest first, by kind, from any id."""

from __future__ import annotations

import shlex

from pydantic import Field
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from dashboard.page import ALWAYS_S, Filters, Ground, Page, Request, Table
from dashboard.pages.campaign import MOST_TOLD
from db import events
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Campaign, Experiment
from db.noise import SERIES_NAME
from knowledge.queries.log import EventView, event_view
from knowledge.queries.lookup import campaign_filter
from knowledge.queries.story import campaign_story
from knowledge.queries.view import View
from knowledge.telling.story_parts import StoryView

LARGEST_ID = 2**63 - 1
MOST_EVENTS = 500

MOST_CAMPAIGNS = 50
"""Campaigns to choose from, the newest; any other is named in the address."""


class LogFilters(Filters):
    """Which events: of a kind or a noun such as `campaign`, of a campaign, with these words, after an id."""

    kind: str | None = Field(default=None, max_length=64, description="A kind, or a noun such as `queue`.")
    campaign: str | None = Field(default=None, max_length=32, description="A campaign's label.")
    q: str | None = Field(default=None, max_length=200, description="What its text or subject must hold.")
    since: int | None = Field(default=None, ge=0, le=LARGEST_ID, description="Only events after this id.")
    limit: int = Field(default=100, ge=1, le=MOST_EVENTS)


class LogView(View):
    """Events, newest first, or oldest first after `since`; `kinds` are those there are, `campaigns`
    the newest. `story` is that of the campaign that is asked for, or of the newest."""

    events: tuple[EventView, ...]
    last_id: int
    kinds: tuple[str, ...]
    campaigns: tuple[str, ...]
    story: StoryView | None = Field(
        description="In short; None where events are sought out, and of a large campaign."
    )


def read(session: Session, request: Request[LogFilters], ground: Ground) -> LogView:
    """Read the events that the filters name."""
    asked = request.filters
    campaign_id = campaign_filter(session, asked.campaign)
    kinds = None if asked.kind is None else events_named(asked.kind)
    if asked.since is None:
        found = events.latest(session, asked.limit, kinds, campaign_id, asked.q)[::-1]
    else:
        found = events.read(session, asked.since, asked.limit, kinds, campaign_id, asked.q)
    return LogView(
        events=tuple(event_view(each) for each in found),
        last_id=events.last_id(session),
        kinds=tuple(kind.value for kind in EventKind),
        campaigns=_campaigns(session),
        story=_story(session, asked, campaign_id),
    )


def _story(session: Session, asked: LogFilters, campaign_id: int | None) -> StoryView | None:
    """The story with which a log begins that is read, and not searched."""
    if asked.kind is not None or asked.q is not None or asked.since is not None:
        return None
    newest = select(Campaign.id).where(Campaign.name != SERIES_NAME).order_by(Campaign.id.desc()).limit(1)
    shown = campaign_id or session.scalar(newest)
    if shown is None or session.get_one(Campaign, shown).name == SERIES_NAME:
        return None
    begun = select(func.count()).where(Experiment.campaign_id == shown, Experiment.started_at.is_not(None))
    if (session.scalar(begun) or 0) > MOST_TOLD:
        return None
    return campaign_story(session, shown)


def _campaigns(session: Session) -> tuple[str, ...]:
    newest = select(Campaign.id).order_by(Campaign.id.desc()).limit(MOST_CAMPAIGNS)
    return tuple(format_label(Noun.CAMPAIGN, each) for each in session.scalars(newest))


def events_named(word: str) -> list[EventKind]:
    """The kind of this name, or those of this noun; none where there is no such kind."""
    return [kind for kind in EventKind if word in (kind.value, kind.value.partition(".")[0])]


def command(request: Request[LogFilters]) -> str:
    """The same on the command line."""
    asked = request.filters
    words = ["autoinfer log"]
    if asked.kind:
        words.append(f"--kind {shlex.quote(asked.kind)}")
    if asked.campaign:
        words.append(f"--campaign {shlex.quote(asked.campaign)}")
    if asked.q:
        words.append(f"--search {shlex.quote(asked.q)}")
    words.append("--follow" if asked.since is None else f"--since {asked.since}")
    return " ".join(words)


def table(view: LogView) -> Table:
    """The events as rows."""
    columns = ("id", "at", "kind", "subject", "campaign", "text")
    return Table(
        columns,
        (
            (each.id, each.at.isoformat(), each.kind, each.subject, each.campaign, each.text)
            for each in view.events
        ),
    )


PAGE = Page(
    name="log",
    title="Log",
    path="/log",
    filters=LogFilters,
    shows=LogView,
    read=read,
    command=command,
    table=table,
    lasts_s=ALWAYS_S,
)
