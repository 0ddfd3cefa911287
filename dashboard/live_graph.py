"""The graph that pages ask: one for each database, kept up to date, lent to one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from sqlalchemy.orm import Session

from knowledge.graph.live_graph import LiveGraph
from knowledge.graph.typed_graph import Graph

MOST_KEPT = 4
_kept: dict[str, LiveGraph] = {}
_lock = Lock()


@contextmanager
def graph_of(session: Session) -> Iterator[Graph]:
    """The graph as the session sees the database; nobody else changes it meanwhile."""
    with _lock:
        url = str(session.get_bind().engine.url)
        if url not in _kept and len(_kept) >= MOST_KEPT:
            _kept.pop(next(iter(_kept)))
        live = _kept.setdefault(url, LiveGraph())
        live.refresh(session)
        yield live.graph
