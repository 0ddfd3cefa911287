"""What is kept of answers: one reading for many, and never a state that is older than the asking."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path

import httpx2 as httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from dashboard.web.kept import MOST_ANSWERS, MOST_BYTES, Kept, keep
from db import events
from db.event_kinds import EventKind
from db.session import Database
from tests.new_database import new_database
from tests.waiting import PATIENCE_S

Make = Callable[[Request], Awaitable[Response]]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = new_database(tmp_path)
    yield database
    database.close()


def note(database: Database) -> None:
    with database.write() as session:
        events.append(session, EventKind.NOTE_ADDED, "a note")


def newest(database: Database) -> int:
    with database.read() as session:
        return events.last_id(session)


class Scene:
    """An app whose one page tells the newest event, with a clock that stands; `made` counts its answers."""

    def __init__(self, database: Database, make: Make | None = None, lasts_s: float | None = 1e9) -> None:
        self.database = database
        self.made = 0
        self.now_s = 0.0
        self._make = make
        self._lasts_s = lasts_s
        self.app = Starlette(
            routes=[Route("/{path:path}", self._page, methods=["GET", "POST"])],
            middleware=[
                Middleware(Kept, database=database, clock=lambda: self.now_s),
                Middleware(GZipMiddleware, minimum_size=1),
            ],
        )

    async def _page(self, request: Request) -> Response:
        self.made += 1
        if self._lasts_s is not None:
            keep(request, self._lasts_s)
        if self._make is not None:
            return await self._make(request)
        return PlainTextResponse(f"event {newest(self.database)} at {request.url.path}?{request.url.query}")

    def run(self, *asks: Callable[[httpx.AsyncClient], Awaitable[None]]) -> None:
        async def whole() -> None:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with (
                asyncio.timeout(PATIENCE_S),
                httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
            ):
                for each in asks:
                    await each(client)

        asyncio.run(whole())


def test_an_answer_is_made_once_until_something_is_written(database: Database) -> None:
    scene = Scene(database)

    async def ask(client: httpx.AsyncClient) -> None:
        first = await client.get("/a?x=1")
        again = await client.get("/a?x=1")
        assert scene.made == 1
        assert (again.text, again.headers["content-type"]) == (first.text, first.headers["content-type"])
        note(database)
        assert (await client.get("/a?x=1")).text == "event 1 at /a?x=1"
        assert scene.made == 2

    scene.run(ask)


def test_addresses_queries_and_encodings_have_answers_of_their_own(database: Database) -> None:
    scene = Scene(database)

    async def ask(client: httpx.AsyncClient) -> None:
        plain = {"accept-encoding": "identity"}
        told = [
            await client.get("/a"),
            await client.get("/a?x=1"),
            await client.get("/b"),
            await client.get("/a", headers=plain),
            await client.get("/a"),
            await client.get("/a", headers=plain),
        ]
        assert [each.text for each in told] == [
            "event 0 at /a?",
            "event 0 at /a?x=1",
            "event 0 at /b?",
            *["event 0 at /a?"] * 3,
        ]
        assert scene.made == 4
        assert ["content-encoding" in each.headers for each in told] == [True] * 3 + [False, True, False]

    scene.run(ask)


def test_what_changes_with_time_is_kept_for_a_moment(database: Database) -> None:
    scene = Scene(database, lasts_s=1.0)

    async def ask(client: httpx.AsyncClient) -> None:
        for now_s, made in ((0.0, 1), (0.9, 1), (1.0, 2), (1.5, 2), (2.0, 3)):
            scene.now_s = now_s
            await client.get("/a")
            assert scene.made == made

    scene.run(ask)


def test_while_one_makes_what_only_aged_the_others_have_the_old_one_and_not_for_long(
    database: Database,
) -> None:
    may_go = asyncio.Event()

    async def make(request: Request) -> Response:
        number = scene.made
        if number > 1:
            await may_go.wait()
        return PlainTextResponse(f"answer {number}")

    scene = Scene(database, make, lasts_s=1.0)

    async def ask(client: httpx.AsyncClient) -> None:
        await client.get("/a")
        scene.now_s = 1.5
        first = asyncio.create_task(client.get("/a"))
        while scene.made < 2:
            await asyncio.sleep(0)
        assert (await client.get("/a")).text == "answer 1"
        scene.now_s = 2.0
        late = asyncio.create_task(client.get("/a"))
        while len(asyncio.all_tasks()) < 3:
            await asyncio.sleep(0)
        may_go.set()
        assert {(await each).text for each in (first, late)} == {"answer 2"}
        assert scene.made == 2

    scene.run(ask)


def test_what_aged_is_not_given_once_something_is_written(database: Database) -> None:
    may_go = asyncio.Event()

    async def make(request: Request) -> Response:
        found = newest(database)
        if scene.made > 1:
            await may_go.wait()
        return PlainTextResponse(f"event {found}")

    scene = Scene(database, make, lasts_s=1.0)

    async def ask(client: httpx.AsyncClient) -> None:
        await client.get("/a")
        scene.now_s = 1.5
        first = asyncio.create_task(client.get("/a"))
        while scene.made < 2:
            await asyncio.sleep(0)
        note(database)
        second = asyncio.create_task(client.get("/a"))
        await asyncio.sleep(0)
        may_go.set()
        assert [(await each).text for each in (first, second)] == ["event 0", "event 1"]

    scene.run(ask)


def test_of_many_at_once_one_makes_it(database: Database) -> None:
    may_go = asyncio.Event()

    async def make(request: Request) -> Response:
        await may_go.wait()
        return PlainTextResponse(f"event {newest(database)}")

    scene = Scene(database, make)

    async def ask(client: httpx.AsyncClient) -> None:
        asked = [asyncio.create_task(client.get("/a")) for _ in range(8)]
        while scene.made == 0:
            await asyncio.sleep(0)
        may_go.set()
        assert {each.text for each in await asyncio.gather(*asked)} == {"event 0"}
        assert scene.made == 1

    scene.run(ask)


def test_who_asks_after_a_write_is_not_given_what_was_begun_before_it(database: Database) -> None:
    may_go, read = asyncio.Event(), asyncio.Event()

    async def make(request: Request) -> Response:
        found = newest(database)
        read.set()
        await may_go.wait()
        return PlainTextResponse(f"event {found}")

    scene = Scene(database, make)

    async def ask(client: httpx.AsyncClient) -> None:
        early = asyncio.create_task(client.get("/a"))
        await read.wait()
        note(database)
        late = [asyncio.create_task(client.get("/a")) for _ in range(3)]
        await asyncio.sleep(0)
        may_go.set()
        assert (await early).text == "event 0"
        assert {each.text for each in await asyncio.gather(*late)} == {"event 1"}
        assert (await client.get("/a")).text == "event 1"
        assert scene.made == 2

    scene.run(ask)


def test_who_waits_takes_what_was_begun_after_they_asked_however_often_is_written(database: Database) -> None:
    may_go = asyncio.Semaphore(0)

    async def make(request: Request) -> Response:
        await may_go.acquire()
        found = newest(database)
        note(database)
        return PlainTextResponse(f"event {found}")

    scene = Scene(database, make)

    async def ask(client: httpx.AsyncClient) -> None:
        asked = [asyncio.create_task(client.get("/a")) for _ in range(6)]
        while scene.made < 1:
            await asyncio.sleep(0)
        for _ in asked:
            may_go.release()
        told = [each.text for each in await asyncio.gather(*asked)]
        assert sorted(told) == ["event 0", *["event 1"] * 5]
        assert scene.made == 2

    scene.run(ask)


@pytest.mark.parametrize(
    "answer",
    [
        lambda: PlainTextResponse("no", 404),
        lambda: PlainTextResponse("yes", headers={"set-cookie": "token=secret"}),
        lambda: PlainTextResponse("x" * (MOST_BYTES + 1)),
    ],
    ids=["an error", "a cookie", "a large one"],
)
def test_some_answers_are_never_kept(database: Database, answer: Callable[[], Response]) -> None:
    async def make(request: Request) -> Response:
        return answer()

    scene = Scene(database, make)

    async def ask(client: httpx.AsyncClient) -> None:
        for _ in range(2):
            await client.get("/a", headers={"accept-encoding": "identity"})
        assert scene.made == 2

    scene.run(ask)


def test_a_write_is_never_answered_with_what_is_kept(database: Database) -> None:
    scene = Scene(database)

    async def ask(client: httpx.AsyncClient) -> None:
        await client.get("/a")
        await client.post("/a")
        assert scene.made == 2

    scene.run(ask)


def test_one_that_fails_holds_nobody_up(database: Database) -> None:
    async def make(request: Request) -> Response:
        await asyncio.sleep(0)
        if scene.made == 1:
            raise RuntimeError("once")
        return PlainTextResponse("well")

    scene = Scene(database, make)

    async def ask(client: httpx.AsyncClient) -> None:
        found = await asyncio.gather(*(client.get("/a") for _ in range(3)))
        assert sorted(each.status_code for each in found) == [200, 200, 500]
        assert scene.made == 2

    scene.run(ask)


def test_a_stream_without_end_holds_nobody_up(database: Database) -> None:
    async def make(request: Request) -> Response:
        async def forever() -> AsyncIterator[str]:
            yield "first"
            await asyncio.Event().wait()

        return StreamingResponse(forever())

    scene = Scene(database, make, lasts_s=None)

    async def ask(client: httpx.AsyncClient) -> None:
        viewers = [asyncio.create_task(client.get("/a")) for _ in range(3)]
        while scene.made < 3:
            await asyncio.sleep(0)
        for each in viewers:
            each.cancel()
            with suppress(asyncio.CancelledError):
                await each

    scene.run(ask)


def test_the_oldest_answers_go_first(database: Database) -> None:
    scene = Scene(database)

    async def ask(client: httpx.AsyncClient) -> None:
        for number in range(MOST_ANSWERS):
            await client.get(f"/{number}")
        await client.get("/0")
        assert scene.made == MOST_ANSWERS
        await client.get("/new")
        await client.get("/0")
        assert scene.made == MOST_ANSWERS + 1
        await client.get("/1")
        assert scene.made == MOST_ANSWERS + 2

    scene.run(ask)
