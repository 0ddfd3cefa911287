"""Viewers without a browser: they read the streams of pages and note when each push came."""

from __future__ import annotations

import asyncio
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

LARGEST_PUSH_BYTES = 4_000_000
LIMIT_S = 60.0


@dataclass
class StreamViewer:
    """One reader of a stream: the ids of the events that its pushes knew, and when (`time.time`) each came
    whole."""

    path: str
    came: list[tuple[int, float]] = field(default_factory=list)
    ended: bool = False

    async def watch(self, host: str, port: int, listening: threading.Semaphore) -> None:
        """Read until the server ends the stream. As HTTP/1.0, whose answers come without chunks."""
        reader, writer = await asyncio.open_connection(host, port, limit=LARGEST_PUSH_BYTES)
        head = f"GET {self.path} HTTP/1.0\r\nHost: {host}:{port}\r\nAccept: text/event-stream\r\n\r\n"
        writer.write(head.encode())
        try:
            status = await reader.readline()
            assert b" 200 " in status, f"{self.path}: {status!r}"
            await reader.readuntil(b"\r\n\r\n")
            listening.release()
            while True:
                message = await reader.readuntil(b"\n\n")
                if message.startswith(b"id: "):
                    self.came.append((int(message[4 : message.index(b"\n")]), time.time()))
        except (asyncio.IncompleteReadError, ConnectionResetError):
            self.ended = True
        finally:
            writer.close()

    def seen_at(self, event_id: int) -> float | None:
        """When the first push that knew the event came, None where none did."""
        place = bisect_left(self.came, event_id, key=lambda each: each[0])
        return self.came[place][1] if place < len(self.came) else None


@contextmanager
def watching(address: str, paths: Sequence[str]) -> Iterator[list[StreamViewer]]:
    """A viewer of each path, all listening once this gives them; they read in a thread of their own."""
    at = urlsplit(address)
    assert at.hostname is not None
    assert at.port is not None
    host, port = at.hostname, at.port
    viewers = [StreamViewer(path) for path in paths]
    listening = threading.Semaphore(0)
    loop = asyncio.new_event_loop()
    tasks: list[asyncio.Task[None]] = []

    def read() -> None:
        asyncio.set_event_loop(loop)
        tasks.extend(loop.create_task(each.watch(host, port, listening)) for each in viewers)
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))

    thread = threading.Thread(target=read)
    thread.start()
    try:
        for _ in viewers:
            assert listening.acquire(timeout=LIMIT_S), "a viewer was not answered"
        yield viewers
    finally:
        loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])
        thread.join(LIMIT_S)
        loop.close()
