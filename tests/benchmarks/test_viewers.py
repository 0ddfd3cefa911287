"""A hundred viewers of a running dashboard: an event is seen at once, and the server's memory stays as it is.

Promised: less than 300 ms at the median from an event (before its transaction begins) until it is seen, and
memory that is flat over ten minutes. One viewer is a browser, where the event must be in the document; 98
read the streams of the pages that are open most; one never reads what it is sent. An event comes every
second. Times and memory are printed; `--viewers-s` makes it shorter, and the report then says so.
"""

from __future__ import annotations

import socket
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import psutil
import pytest
from playwright.sync_api import Browser, Page, expect

from db import events
from db.event_kinds import EventKind
from db.session import Database, open_database
from tests.benchmarks.slowness import Promise
from tests.benchmarks.stream_viewers import StreamViewer, watching
from tests.history.large_history import large_history
from tests.history.large_story import Size
from tests.integration.dashboard.browser import looking
from tests.integration.dashboard.browser import timed_browser as browser
from tests.integration.dashboard.serving import serving
from tests.new_database import database_url

__all__ = ["browser"]

SIZE = Size(experiments=500, events=20_000)
PAGES = ("/now.stream", "/log.stream", "/experiments.stream", "/queue.stream")
READERS = 98
EVERY_S = 1.0
DURATION_S = 600.0
WARM_UP_S = 10.0
KIND = EventKind.EXPERIMENT_STARTED
"""An event that changes each of the pages."""

SEEN = Promise("from an event until it is seen, median", 0.3)
MOST_GROWTH = 0.05
"""Of the memory in the first third of the time, what it may be more in the last: what an allocator keeps."""

LEAST_SEEN = 0.98
"""Share of events that each viewer must have been told of by a push of their own or a later one."""

SETTLE_S = 20.0

NOTE_WHEN_SEEN = """() => {
  window.seen = {};
  const look = () => {
    for (const [, number] of document.getElementById("view").textContent.matchAll(/viewed event (\\d+)/g)) {
      window.seen[number] ??= performance.timeOrigin + performance.now();
    }
  };
  new MutationObserver(look).observe(document.getElementById("view"),
    { subtree: true, childList: true, characterData: true });
}"""

pytestmark = [pytest.mark.bench_only, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("viewers")
    large_history(folder, SIZE).close()
    return folder


@pytest.fixture
def database(data_dir: Path) -> Iterator[Database]:
    opened = open_database(database_url(data_dir))
    yield opened
    opened.close()


def happens(database: Database, number: int) -> tuple[int, float]:
    """Append an event; its id, and when that began."""
    began = time.time()
    with database.write() as session:
        return events.append(session, KIND, f"viewed event {number}", campaign_id=1), began


def server_process() -> psutil.Process:
    """The server that this process started."""
    (found,) = [each for each in psutil.Process().children() if "dashboard" in each.cmdline()]
    return found


def one_that_never_reads(address: str) -> socket.socket:
    at = urlsplit(address)
    connection = socket.create_connection((at.hostname, at.port))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.sendall(f"GET /log.stream HTTP/1.1\r\nHost: {at.netloc}\r\n\r\n".encode())
    return connection


def seen_in(page: Page) -> dict[int, float]:
    return {int(number): at / 1e3 for number, at in page.evaluate("window.seen").items()}


def told_s(viewer: StreamViewer, sent: dict[int, tuple[int, float]]) -> list[float]:
    """Seconds until the viewer was told of each event; those it was never told of are left out."""
    found = [(viewer.seen_at(event_id), began) for event_id, began in sent.values()]
    return [at - began for at, began in found if at is not None]


def test_a_hundred_viewers_see_an_event_at_once_and_memory_is_flat(
    browser: Browser, data_dir: Path, database: Database, request: pytest.FixtureRequest
) -> None:
    duration_s = request.config.getoption("--viewers-s") or DURATION_S
    paths = [PAGES[number % len(PAGES)] for number in range(READERS)]
    sent: dict[int, tuple[int, float]] = {}
    memory: list[tuple[float, int]] = []
    with (
        serving(data_dir) as address,
        looking(browser, address) as (page, complaints),
        one_that_never_reads(address),
        watching(address, paths) as viewers,
    ):
        server = server_process()
        page.goto(f"{address}/log")
        expect(page.locator("#live")).to_have_attribute("data-state", "live")
        page.evaluate(NOTE_WHEN_SEEN)
        begun = time.monotonic()
        while (now_s := time.monotonic() - begun) < WARM_UP_S + duration_s:
            sent[len(sent)] = happens(database, len(sent))
            if now_s > WARM_UP_S:
                memory.append((now_s, server.memory_info().rss))
            page.wait_for_timeout(1e3 * max(0.0, begun + EVERY_S * len(sent) - time.monotonic()))
        last = len(sent) - 1
        expect(page.locator("#view")).to_contain_text(f"viewed event {last}", timeout=1e3 * SETTLE_S)
        limit = time.monotonic() + SETTLE_S
        while any(each.seen_at(sent[last][0]) is None for each in viewers) and time.monotonic() < limit:
            page.wait_for_timeout(100)
        in_browser = seen_in(page)
        assert complaints.found == []
    of_all = [told_s(each, sent) for each in viewers]
    in_browser_s = [in_browser[number] - sent[number][1] for number in in_browser]
    report(duration_s, sent, of_all, in_browser_s, memory)
    assert not any(each.ended for each in viewers), "a viewer was dropped"
    assert min(map(len, [*of_all, in_browser_s])) >= LEAST_SEEN * len(sent)
    SEEN.hold(statistics.median(each for some in of_all for each in some))
    SEEN.hold(statistics.median(in_browser_s))
    assert growth(memory) < MOST_GROWTH


def growth(memory: list[tuple[float, int]]) -> float:
    """How much more memory the last third of the time has than the first, as a share, by their medians."""
    third = max(1, len(memory) // 3)
    first, last = (statistics.median(size for _, size in some) for some in (memory[:third], memory[-third:]))
    return last / first - 1


def report(
    duration_s: float,
    sent: dict[int, tuple[int, float]],
    of_all: list[list[float]],
    in_browser_s: list[float],
    memory: list[tuple[float, int]],
) -> None:
    streams = np.array([each for some in of_all for each in some])
    sizes = [size / 1e6 for _, size in memory]
    short = "" if duration_s >= DURATION_S else f", shorter than the {DURATION_S:g} s that are promised"
    print(f"\n{len(sent)} events in {duration_s:g} s after {WARM_UP_S:g} s of warm-up{short}")
    for name, found in (("streams", streams), ("document of the browser", np.array(in_browser_s))):
        median, p95 = 1e3 * np.percentile(found, [50, 95])
        print(f"until seen, {name}: median {median:.0f} ms, p95 {p95:.0f} ms of {len(found)}")
    print(f"memory: {sizes[0]:.0f} to {sizes[-1]:.0f} MB, {100 * growth(memory):+.1f} % by thirds")
