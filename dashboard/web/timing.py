"""How long the server takes for an answer, in the `Server-Timing` header and in counts for `/metrics`."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import defaultdict

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Upper bounds of the histogram's buckets, in seconds."""


class Timings:
    """Answers counted by route and bucket of seconds until their first byte."""

    def __init__(self) -> None:
        self.buckets: defaultdict[str, list[int]] = defaultdict(lambda: [0] * (len(BOUNDS_S) + 1))
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def add(self, route: str, took_s: float) -> None:
        """Count an answer."""
        self.buckets[route][bisect_left(BOUNDS_S, took_s)] += 1
        self.seconds[route] += took_s


class Timed:
    """ASGI middleware: from the request's arrival to the first byte of its answer."""

    def __init__(self, app: ASGIApp, timings: Timings) -> None:
        self._app = app
        self._timings = timings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, and time the answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = time.perf_counter()

        async def timed(message: Message) -> None:
            if message["type"] == "http.response.start":
                took_s = time.perf_counter() - begun
                MutableHeaders(scope=message)["server-timing"] = f"app;dur={1e3 * took_s:.2f}"
                route = scope.get("route")
                self._timings.add(getattr(route, "path", "other"), took_s)
            await send(message)

        await self._app(scope, receive, timed)
