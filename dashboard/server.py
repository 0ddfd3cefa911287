"""Serving the app on a socket until the process is told to end."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from dashboard.listening import Listening

SHUTDOWN_S = 2.0
"""Seconds that streams are given to end when the server does."""

TICK_S = 1.0
"""Seconds between two looks at the clock for the date of answers, which is all a server does for nobody."""


def serve(app: ASGIApp, listening: Listening, ready: Callable[[], None] = lambda: None) -> None:
    """Serve until the process is told to end by SIGINT or SIGTERM; `ready` is called once it answers."""
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=round(SHUTDOWN_S),
        server_header=False,
    )
    server = _Server(config, ready)
    server.run(sockets=[listening.socket])


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready
        self._loop: asyncio.AbstractEventLoop | None = None
        self._told_to_end = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        # What stands by now, modules above all, stays to the end. While the collector walks through it, which
        # the objects of one large page bring about, no page is answered: 0.1 s each time.
        gc.freeze()
        if self.started:
            self._ready()

    async def main_loop(self) -> None:
        """As the base has it, which wakes ten times a second; told to end, it does so at once."""
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._told_to_end.wait(), TICK_S)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._told_to_end.set)
