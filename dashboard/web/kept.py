"""Answers that are kept until anything is written to the database, so that many viewers cost one reading.

An answer is kept where its route asks for it, under its address and whether it is compressed, with the
standing of the database before it was made (`db.standing`): as soon as anybody commits anything, it is made
anew. So nobody sees an older state than the database had when they asked. What a view tells of besides (the
clock, files, processes) is the reason why a route also says for how long its answer lasts; when that is
over one asks for another, and the rest are given the old one meanwhile, for as long again at most.

Of several who ask for the same at once one makes it and the others wait. They take what was begun after they
asked even if something was written meanwhile, as they would have read no more themselves: so nobody waits for
more than two, however often is written. Nothing here knows who asks: this
stands inside the guard, and keeps no answer that sets a cookie.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from db.session import Database

MOST_ANSWERS = 128
"""Answers kept, those that were asked for last."""

MOST_BYTES = 500_000
"""Largest body that is kept: with `MOST_ANSWERS`, at most 64 MB in all."""

WISH = "autoinfer.keep"
"""Key of the scope under which a route says for how long its answer lasts."""


@dataclass
class Wish:
    """What a route says of its answer: seconds that it lasts while the database stands still; None not to
    keep it."""

    lasts_s: float | None = None


def keep(request: Request, lasts_s: float) -> None:
    """Ask that the answer to this request be kept; see `Wish`."""
    wish = request.scope.get(WISH)
    if isinstance(wish, Wish):
        wish.lasts_s = lasts_s


@dataclass(frozen=True)
class Answer:
    """What was sent: true while the database stands there, for so many seconds since it was begun, or twice
    as many while another is made; the `turn`-th that was made."""

    standing: str
    turn: int
    begun: float
    lasts_s: float
    route: Any
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes

    def lasts(self, standing: str, now: float, is_made_anew: bool) -> bool:
        """Whether it may be given where the database stands at `now`."""
        return self.standing == standing and now - self.begun < self.lasts_s * (2 if is_made_anew else 1)


Key = tuple[str, bytes, bool]


class Kept:
    """ASGI middleware around whatever compresses; used in one event loop."""

    def __init__(self, app: ASGIApp, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._app = app
        self._database = database
        self._clock = clock
        self._answers: OrderedDict[Key, Answer] = OrderedDict()
        self._making: dict[Key, asyncio.Event] = {}
        self._turns = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with what is kept, or pass on."""
        if scope["type"] != "http" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        key, asked_at = _key(scope), self._turns
        while (standing := await self._standing()) is not None:
            found, other = self._answers.get(key), self._making.get(key)
            if found is not None and (
                found.turn > asked_at or found.lasts(standing, self._clock(), other is not None)
            ):
                self._answers.move_to_end(key)
                await _give(found, scope, send)
                return
            if other is None:
                await self._make(key, standing, scope, receive, send)
                return
            await other.wait()
        await self._app(scope, receive, send)

    async def _standing(self) -> str | None:
        if self._database.is_file:
            return self._database.standing()
        return await asyncio.to_thread(self._database.standing)

    async def _make(self, key: Key, standing: str, scope: Scope, receive: Receive, send: Send) -> None:
        made = self._making[key] = asyncio.Event()
        self._turns += 1
        turn = self._turns
        begun, wish, body = self._clock(), Wish(), bytearray()
        started: Message = {}
        scope[WISH] = wish

        def over() -> None:
            if not made.is_set():
                made.set()
                del self._making[key]

        async def seen(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = {**message, "headers": tuple(message["headers"])}
                if wish.lasts_s is None or not _may_be_kept(started):
                    wish.lasts_s = None
                    over()  # the answer may be a stream without end
            elif message["type"] == "http.response.body" and wish.lasts_s is not None:
                body.extend(message.get("body", b""))
                if not message.get("more_body", False) and len(body) <= MOST_BYTES:
                    route, headers = scope.get("route"), started["headers"]
                    self._add(key, Answer(standing, turn, begun, wish.lasts_s, route, headers, bytes(body)))
            await send(message)

        try:
            await self._app(scope, receive, seen)
        finally:
            over()

    def _add(self, key: Key, answer: Answer) -> None:
        self._answers[key] = answer
        self._answers.move_to_end(key)
        while len(self._answers) > MOST_ANSWERS:
            self._answers.popitem(last=False)


def _key(scope: Scope) -> Key:
    return scope["path"], scope["query_string"], "gzip" in Headers(scope=scope).get("accept-encoding", "")


def _may_be_kept(started: Message) -> bool:
    return started["status"] == 200 and not any(name == b"set-cookie" for name, _ in started["headers"])


async def _give(answer: Answer, scope: Scope, send: Send) -> None:
    scope["route"] = answer.route  # its time is counted under it, as if it had been found
    await send({"type": "http.response.start", "status": 200, "headers": list(answer.headers)})
    await send({"type": "http.response.body", "body": answer.body, "more_body": False})
