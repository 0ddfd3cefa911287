"""The stream: rendered once for all, the newest view for the slow, the view of now for who comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboard.stream.hub import Hub, Push, Topic
from dashboard.stream.wire import HEARTBEAT, RETRY, message, pushes
from db import events
from db.event_kinds import EventKind
from db.session import Database
from tests.new_database import new_database
from tests.waiting import PATIENCE_S


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = new_database(tmp_path)
    yield opened
    opened.close()


def happens(database: Database, kind: EventKind = EventKind.NOTE_ADDED) -> int:
    with database.write() as session:
        return events.append(session, kind, "something")


class Counted:
    """A view that counts how often it was rendered."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.times = 0

    def topic(self, kinds: frozenset[str] | None = None) -> Topic:
        return Topic("/log", self.render, lambda came: kinds is None or bool(kinds & came))

    def render(self) -> Push:
        self.times += 1
        with self.database.read() as session:
            last = events.last_id(session)
        return Push(last, f"view {last}")


def test_a_push_is_lines_of_data_with_the_id_to_resume_from() -> None:
    assert message("<p>\na\n</p>", 7) == "id: 7\ndata: <p>\ndata: a\ndata: </p>\n\n"


def test_one_rendering_reaches_every_viewer(database: Database) -> None:
    view = Counted(database)

    async def scene() -> list[Push]:
        hub = Hub(database, poll_s=0.01)
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
            reader = group.create_task(hub.run())
            topic = view.topic()
            async with hub.watching(topic, 0) as first, hub.watching(topic, 0) as second:
                await asyncio.sleep(0)
                happens(database)
                found = [await first.next(), await second.next()]
                assert hub.viewers == 2
            assert hub.viewers == 0
            reader.cancel()
        return found

    assert asyncio.run(scene()) == [Push(1, "view 1")] * 2
    assert view.times == 1


def test_what_happens_before_the_reader_has_begun_reaches_who_watches_already(database: Database) -> None:
    view = Counted(database)

    async def scene() -> Push:
        hub = Hub(database, poll_s=0.01)
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
            async with hub.watching(view.topic(), 0) as viewer:
                happens(database)
                reader = group.create_task(hub.run())
                push = await viewer.next()
            reader.cancel()
        return push

    assert asyncio.run(scene()) == Push(1, "view 1")


def test_who_is_slow_gets_the_newest_view_alone(database: Database) -> None:
    view = Counted(database)

    async def scene() -> Push:
        hub = Hub(database, poll_s=0.01)
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
            reader = group.create_task(hub.run())
            async with hub.watching(view.topic(), 0) as viewer:
                for _ in range(3):
                    last = happens(database)
                    while hub.last_id < last:
                        await asyncio.sleep(0.01)
                push = await viewer.next()
                while push.id < last:
                    push = await viewer.next()
            reader.cancel()
        return push

    assert asyncio.run(scene()) == Push(3, "view 3")


def test_who_comes_back_gets_what_was_missed_and_who_knows_all_gets_nothing(database: Database) -> None:
    last = happens(database)
    view = Counted(database)

    async def scene() -> tuple[str, str]:
        hub = Hub(database)
        missed = pushes(hub, view.topic(), last - 1, heartbeat_s=0.01)
        known = pushes(hub, view.topic(), last, heartbeat_s=0.01)
        async with asyncio.timeout(PATIENCE_S):
            assert await anext(missed) == await anext(known) == RETRY
            found = await anext(missed), await anext(known)
            await missed.aclose()
            await known.aclose()
        return found

    assert asyncio.run(scene()) == (message("view 1", 1), HEARTBEAT)


def test_events_of_other_kinds_render_nothing(database: Database) -> None:
    view = Counted(database)

    async def scene() -> None:
        hub = Hub(database, poll_s=0.01)
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
            reader = group.create_task(hub.run())
            async with hub.watching(view.topic(frozenset({"queue.ranked"})), 0) as viewer:
                other = happens(database)
                while hub.last_id < other:
                    await asyncio.sleep(0.01)
                assert view.times == 0
                happens(database, EventKind.QUEUE_RANKED)
                assert (await viewer.next()).id == 2
            reader.cancel()

    asyncio.run(scene())
    assert view.times == 1


def test_a_view_that_fails_is_tried_again_and_keeps_no_other_from_its_viewers(database: Database) -> None:
    view = Counted(database)
    failures = 2

    def fails() -> Push:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise OSError("the disk does not answer")
        return Push(1, "at last")

    async def scene() -> list[Push]:
        hub = Hub(database, poll_s=0.01)
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
            reader = group.create_task(hub.run())
            failing = Topic("/now", fails, lambda came: True)
            async with hub.watching(failing, 0) as first, hub.watching(view.topic(), 0) as second:
                happens(database)
                found = [await second.next(), await first.next()]
            reader.cancel()
        return found

    assert asyncio.run(scene()) == [Push(1, "view 1"), Push(1, "at last")]
    assert view.times == 1
