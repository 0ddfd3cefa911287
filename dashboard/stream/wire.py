"""Server-sent events as text (WHATWG HTML, section 9.2)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from dashboard.stream.hub import Topic, Viewer

HEARTBEAT_S = 15.0
"""Seconds without a push after which a comment is sent, so that both ends see a broken line."""

HEARTBEAT = ": alive\n\n"
RETRY = "retry: 1000\n\n"
"""Milliseconds until a browser comes back."""


class Watchable(Protocol):
    """What renders views and gives them to viewers: at events (`Hub`) or at a pace (`Ticks`)."""

    def watching(self, topic: Topic, known_id: int) -> AbstractAsyncContextManager[Viewer]:
        """A viewer of the topic that knows the view of that id."""


def message(html: str, event_id: int) -> str:
    """A push: HTML to be swapped, and the id to resume from."""
    lines = "".join(f"data: {line}\n" for line in html.splitlines())
    return f"id: {event_id}\n{lines}\n"


async def pushes(
    hub: Watchable, topic: Topic, known_id: int, heartbeat_s: float = HEARTBEAT_S
) -> AsyncIterator[str]:
    """What a viewer is sent for as long as it listens."""
    yield RETRY
    async with hub.watching(topic, known_id) as viewer:
        while True:
            try:
                push = await asyncio.wait_for(viewer.next(), heartbeat_s)
            except TimeoutError:
                yield HEARTBEAT
            else:
                yield message(push.html, push.id)
