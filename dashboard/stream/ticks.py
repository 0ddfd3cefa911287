"""A stream of views that change with time instead of with events: rendered at a pace, once for all viewers.

For readings of devices, which are in memory, and for logs, which are files: neither are events. A push is the
whole live part of a page, as in `dashboard.stream.hub`, and its id the second since 1970 that it was rendered
in. A view that is as it was is not pushed again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from dashboard.stream.hub import Push, Topic, Viewer

_log = logging.getLogger(__name__)


def this_second() -> int:
    """The id of a view that is rendered now."""
    return int(time.time())


class Ticks:
    """Topics and who watches them; `run` renders them every `period_s()` seconds, while anybody does."""

    def __init__(self, period_s: Callable[[], float]) -> None:
        self._period_s = period_s
        self._viewers: dict[str, tuple[Topic, list[Viewer]]] = {}
        self._pushed: dict[str, str] = {}
        """What was pushed last of each topic."""
        self._new: set[int] = set()
        """Viewers that no tick has come to yet: what they know may be older than what was pushed last."""
        self._watched = asyncio.Event()

    @property
    def viewers(self) -> int:
        """How many watch."""
        return sum(len(viewers) for _, viewers in self._viewers.values())

    @asynccontextmanager
    async def watching(self, topic: Topic, known_id: int) -> AsyncIterator[Viewer]:
        """Watch a topic; who knows an older view than that of this second gets the next one at once."""
        viewer = Viewer()
        self._new.add(id(viewer))
        self._viewers.setdefault(topic.key, (topic, []))[1].append(viewer)
        self._watched.set()
        try:
            if known_id < this_second():
                viewer.offer(await asyncio.to_thread(topic.render))
            yield viewer
        finally:
            _, viewers = self._viewers[topic.key]
            viewers.remove(viewer)
            self._new.discard(id(viewer))
            if not viewers:
                del self._viewers[topic.key]
                self._pushed.pop(topic.key, None)
            if not self._viewers:
                self._watched.clear()

    async def run(self) -> None:
        """Render and push, until cancelled. A view that can't be rendered is tried again at the next tick."""
        while True:
            await self._watched.wait()
            await asyncio.sleep(self._period_s())
            for topic, viewers in list(self._viewers.values()):
                try:
                    push: Push = await asyncio.to_thread(topic.render)
                except Exception:
                    _log.exception("A view of the devices could not be rendered; it is tried again.")
                    continue
                changed = push.html != self._pushed.get(topic.key)
                self._pushed[topic.key] = push.html
                for viewer in viewers:
                    if changed or id(viewer) in self._new:
                        viewer.offer(push)
                    self._new.discard(id(viewer))
