"""The second kind of stream: rendered at a pace, once for all, while anybody watches."""

from __future__ import annotations

import asyncio

from dashboard.stream.hub import Push, Topic
from dashboard.stream.ticks import Ticks, this_second
from dashboard.stream.wire import RETRY, message, pushes
from tests.waiting import PATIENCE_S

LATER = 2**40
"""The id of a view that is newer than any."""


class Counted:
    """A view that counts how often it was rendered, and fails as often as it is told to."""

    def __init__(self, failures: int = 0) -> None:
        self.times = 0
        self.failures = failures

    def topic(self) -> Topic:
        return Topic("/gpus", self.render, lambda kinds: False)

    def render(self) -> Push:
        self.times += 1
        if self.times <= self.failures:
            raise OSError("not this time")
        return Push(self.times, f"view {self.times}")


def test_one_rendering_a_tick_reaches_every_viewer_and_nobody_is_rendered_for_nobody() -> None:
    view = Counted()

    periods = iter([0.0])

    async def scene() -> tuple[Push, Push]:
        ticks = Ticks(lambda: next(periods, PATIENCE_S))
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
            running = group.create_task(ticks.run())
            for _ in range(5):
                await asyncio.sleep(0)
            assert view.times == 0
            topic = view.topic()
            async with ticks.watching(topic, LATER) as first, ticks.watching(topic, LATER) as second:
                assert ticks.viewers == 2
                found = await first.next(), await second.next()
            assert ticks.viewers == 0
            running.cancel()
        return found

    assert asyncio.run(scene()) == (Push(1, "view 1"), Push(1, "view 1"))
    assert view.times == 1


def test_a_view_that_can_t_be_rendered_is_tried_again() -> None:
    view = Counted(failures=2)

    async def scene() -> Push:
        ticks = Ticks(lambda: 0.0)
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
            running = group.create_task(ticks.run())
            async with ticks.watching(view.topic(), LATER) as viewer:
                push = await viewer.next()
            running.cancel()
        return push

    assert asyncio.run(scene()).id == 3


def test_who_comes_back_gets_the_view_of_now_at_once() -> None:
    view = Counted()

    async def scene() -> str:
        stream = pushes(Ticks(lambda: PATIENCE_S), view.topic(), this_second() - 5)
        async with asyncio.timeout(PATIENCE_S):
            assert await anext(stream) == RETRY
            found = await anext(stream)
            await stream.aclose()
        return found

    assert asyncio.run(scene()) == message("view 1", 1)


def test_a_view_that_is_as_it_was_is_pushed_once_to_each_who_watches() -> None:
    """A log that nothing is added to, and a second viewer who came when it had been pushed."""
    rendered = asyncio.Event()

    def render() -> Push:
        rendered.set()
        return Push(this_second(), "the log")

    async def scene() -> tuple[Push, Push, bool]:
        ticks = Ticks(lambda: 0.0)
        topic = Topic("/log", render, lambda kinds: False)
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
            running = group.create_task(ticks.run())
            async with ticks.watching(topic, LATER) as first:
                one = await first.next()
                async with ticks.watching(topic, LATER) as second:
                    two = await second.next()
                    again = group.create_task(first.next())
                    for _ in range(3):
                        rendered.clear()
                        await rendered.wait()
                    silent = not again.done()
                    again.cancel()
            running.cancel()
        return one, two, silent

    one, two, silent = asyncio.run(scene())
    assert (one.html, two.html, silent) == ("the log", "the log", True)
