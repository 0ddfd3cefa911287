"""The event log: append, read from any id, follow.

An id is given when an event is appended and seen when its transaction commits. A reader that has seen id n
never looks below it again, so ids must become visible in their order. `Database.write()` admits one writer at
a time, which is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from sqlalchemy import ColumnElement, func, insert, select
from sqlalchemy.orm import Session

from configs.authors import author_words
from db.event_kinds import EventKind
from db.models.base import JsonObject
from db.models.event import Event
from db.session import Database

PAGE_EVENTS = 500
"""Events that `follow` reads in one transaction."""

BY = "by"
"""Where an event's `data` keeps who caused it, and what marks the transaction of somebody else than the
user."""


def sign(session: Session, by: str) -> None:
    """Let every event that this session appends from now on say who caused it: in its data, and at the end of
    its sentence where that does not begin with them.

    For writers beside the user, such as a coding agent (`mcp:NAME`, its own word for itself): whatever door
    they come through, the log tells them apart.
    """
    session.info[BY] = by


def author_of(session: Session) -> str | None:
    """Who signed this session; None for the user and the agent itself."""
    by = session.info.get(BY)
    return by if isinstance(by, str) else None


def append(
    session: Session,
    kind: EventKind,
    text: str,
    subject: str | None = None,
    campaign_id: int | None = None,
    data: JsonObject | None = None,
) -> int:
    """Append a line in the session's write transaction and return its id.

    `text` is the sentence shown; `subject` the label of what it is about, such as `H-021`. A session that was
    signed (`sign`) adds by whom.
    """
    by = author_of(session)
    if by is not None:
        data, words = {**(data or {}), BY: by}, author_words(by)
        # only at its beginning: further on it may stand in what somebody wrote
        named = text[: len(words)].lower() == words.lower()
        text = text if named else f"{text.rstrip('.')} (by {words})."
    row = {
        "kind": kind.value,
        "text": text,
        "subject": subject,
        "campaign_id": campaign_id,
        "data": data,
    }
    return session.execute(insert(Event).returning(Event.id), row).scalar_one()


def read(
    session: Session,
    after_id: int = 0,
    limit: int | None = None,
    kinds: Collection[EventKind] | None = None,
    campaign_id: int | None = None,
    words: str | None = None,
) -> list[Event]:
    """Return events with an id above `after_id`, oldest first, at most `limit` of them.

    `kinds`, `campaign_id` and `words` filter when given: these stand in its text or its subject, in any case.
    Events of no campaign are left out when a campaign is asked for.
    """
    filters = _filters(kinds, campaign_id, words)
    query = select(Event).where(Event.id > after_id, *filters).order_by(Event.id)
    return list(session.scalars(query.limit(limit)))


def latest(
    session: Session,
    limit: int,
    kinds: Collection[EventKind] | None = None,
    campaign_id: int | None = None,
    words: str | None = None,
) -> list[Event]:
    """Return the last `limit` events, oldest first; filters as in `read`."""
    query = select(Event).where(*_filters(kinds, campaign_id, words)).order_by(Event.id.desc())
    return list(session.scalars(query.limit(limit)))[::-1]


def of_kind(kind: EventKind, campaign_id: int) -> ColumnElement[bool]:
    """Which events are of a rare kind and of a campaign, found by their kind: the sum keeps a database from
    walking through all events of the campaign instead."""
    return (Event.kind == kind.value) & (Event.campaign_id + 0 == campaign_id)


def of_kinds(kinds: Collection[EventKind], *campaign_ids: int) -> ColumnElement[bool]:
    """As `of_kind`, of several kinds, and of any of these campaigns."""
    return Event.kind.in_([kind.value for kind in kinds]) & (Event.campaign_id + 0).in_(campaign_ids)


def last_id(session: Session) -> int:
    """Return the id of the newest event, 0 when the log is empty."""
    return session.execute(select(func.coalesce(func.max(Event.id), 0))).scalar_one()


def follow(
    database: Database,
    after_id: int,
    wait: Callable[[], bool],
    kinds: Collection[EventKind] | None = None,
    campaign_id: int | None = None,
    words: str | None = None,
) -> Iterator[Event]:
    """Yield events after `after_id` as they come, without a gap, until `wait` returns false.

    `wait` is called whenever the log is read to its end: it blocks until something may have been added, or
    for as long as it pleases, and returns whether to go on. No transaction is open while it waits or while
    the caller works.
    """
    while True:
        with database.read() as session:
            page = read(session, after_id, PAGE_EVENTS, kinds, campaign_id, words)
        for event in page:
            after_id = event.id
            yield event
        if len(page) < PAGE_EVENTS and not wait():
            return


def _filters(
    kinds: Collection[EventKind] | None, campaign_id: int | None, words: str | None
) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if kinds is not None:
        conditions.append(Event.kind.in_([kind.value for kind in kinds]))
    if campaign_id is not None:
        conditions.append(Event.campaign_id == campaign_id)
    if words:
        held = Event.text.icontains(words, autoescape=True)
        conditions.append(held | Event.subject.icontains(words, autoescape=True))
    return conditions
