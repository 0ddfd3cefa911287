"""One reader of the event table for all viewers: a view that changed is rendered once and given to each.

A push is the whole live part of a page as it stands after an event, so a viewer needs only the newest: what a
slow one has not taken yet is replaced, and it can be neither late by more than one push nor hold memory. The
id of a push is that of the last event it knows; who comes back with an older one gets the view of now.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from sqlalchemy import select

from db import events
from db.models import Event
from db.session import Database

POLL_S = 0.1
"""Seconds between two looks at the event table, while anybody watches."""

UNREAD = -1
"""Stands for the newest id until it was read once."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Push:
    """A view as HTML, and the id of the last event that it knows."""

    id: int
    html: str


@dataclass(frozen=True)
class Topic:
    """A view that is watched: its address with all filters, and how it is read and rendered anew.

    `render` opens the database, may take some time, and runs in a thread; `changes_with` takes the kinds of
    the events that came.
    """

    key: str
    render: Callable[[], Push]
    changes_with: Callable[[set[str]], bool]


@dataclass
class Viewer:
    """One browser's place: the newest push that it has not taken."""

    _waiting: Push | None = None
    _came: asyncio.Event = field(default_factory=asyncio.Event)

    def offer(self, push: Push) -> None:
        """Leave a push for the viewer in place of an older one."""
        self._waiting = push
        self._came.set()

    async def next(self) -> Push:
        """The newest push, once there is one that was not taken."""
        await self._came.wait()
        self._came.clear()
        push, self._waiting = self._waiting, None
        assert push is not None
        return push


class Hub:
    """Topics and who watches them; `run` is the one reader, to be started once in the server's loop."""

    def __init__(self, database: Database, poll_s: float = POLL_S) -> None:
        self._database = database
        self._poll_s = poll_s
        self._viewers: dict[str, tuple[Topic, list[Viewer]]] = {}
        self._watched = asyncio.Event()
        self._owed: set[str] = set()
        self._reading = False
        self.last_id = UNREAD

    @property
    def viewers(self) -> int:
        """How many watch."""
        return sum(len(viewers) for _, viewers in self._viewers.values())

    @asynccontextmanager
    async def watching(self, topic: Topic, known_id: int) -> AsyncIterator[Viewer]:
        """Watch a topic; a viewer that knows less than there is gets the view of now at once."""
        viewer = Viewer()
        self._viewers.setdefault(topic.key, (topic, []))[1].append(viewer)
        self._watched.set()
        try:
            newest = await asyncio.to_thread(self._newest_id)
            self._begin_at(newest)
            if newest > known_id:
                viewer.offer(await asyncio.to_thread(topic.render))
            yield viewer
        finally:
            _, viewers = self._viewers[topic.key]
            viewers.remove(viewer)
            if not viewers:
                del self._viewers[topic.key]
            if not self._viewers:
                self._watched.clear()

    async def run(self) -> None:
        """Look for events and push, until cancelled. A database that can't be read is tried again."""
        self._begin_at(await asyncio.to_thread(self._newest_id))
        self._reading = True
        while True:
            await self._watched.wait()
            try:
                kinds = await asyncio.to_thread(self._new_kinds)
                await self._push(kinds)
            except Exception:
                _log.exception("The event stream could not read the database; it tries again.")
            await asyncio.sleep(self._poll_s)

    async def _push(self, kinds: set[str]) -> None:
        """Render what changed, and what could not be rendered the last time; what can't be now is owed."""
        owed, self._owed = self._owed, set()
        for key, (topic, viewers) in list(self._viewers.items()):
            if key in owed or (kinds and topic.changes_with(kinds)):
                try:
                    push = await asyncio.to_thread(topic.render)
                except Exception:
                    self._owed.add(key)
                    if key not in owed:
                        _log.exception("%s could not be rendered for who watches; it is tried again.", key)
                    continue
                for viewer in viewers:
                    viewer.offer(push)

    def _begin_at(self, newest: int) -> None:
        """Push what comes after the least id that was read until the reader reads on: viewers may come before
        it, and what happens in between is owed to them."""
        if not self._reading:
            self.last_id = newest if self.last_id == UNREAD else min(self.last_id, newest)

    def _newest_id(self) -> int:
        with self._database.read() as session:
            return events.last_id(session)

    def _new_kinds(self) -> set[str]:
        with self._database.read() as session:
            newest = events.last_id(session)
            if newest <= self.last_id:
                return set()
            query = select(Event.kind).where(Event.id > self.last_id, Event.id <= newest).distinct()
            kinds = set(session.scalars(query))
        self.last_id = newest
        return kinds
