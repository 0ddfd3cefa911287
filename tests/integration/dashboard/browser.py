"""A real Chromium on the pages of a real server: what it complains of, and where it goes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, get_args
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    expect,
    sync_playwright,
)

NAMES = ("chromium", "chromium-browser", "google-chrome")

NO_BROWSER = (
    "no Chromium was found, so the pages were not looked at in a browser: install one "
    "(Debian: apt-get install chromium) and run the tests again"
)


PATIENCE_MS = 90_000
"""How long something may take to show on a machine whose cores other tests keep busy."""

SHORT_LIVED = "--js-flags=--no-opt --no-maglev"
"""A page that is left after seconds gets nothing back from compilers that optimize: without them a look at
all pages took a quarter less processor time."""


@contextmanager
def launched(*arguments: str) -> Iterator[Browser]:
    """Chromium as the machine has it; skips with what to do where there is none."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(NO_BROWSER)
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", *arguments])
        yield started
        started.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for tests of what pages do."""
    with launched(SHORT_LIVED) as found:
        yield found


@pytest.fixture(scope="module")
def timed_browser() -> Iterator[Browser]:
    """A browser as users have it, for benchmarks."""
    with launched() as found:
        yield found


@dataclass
class Complaints:
    """What went wrong on a page: errors and warnings of the console, refusals, requests to elsewhere."""

    host: str
    found: list[str] = field(default_factory=list)

    def watch(self, page: Page) -> None:
        """Listen to a page; refusals by the content policy come through the console."""
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.found.append(f"error: {error}"))
        page.on("request", self._request)
        page.on("response", lambda answer: self._answer(answer.status, answer.url))

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.found.append(f"{message.type}: {message.text}")

    def _request(self, request: Request) -> None:
        at = urlsplit(request.url)
        if at.scheme != "data" and at.netloc != self.host:
            self.found.append(f"a request to {request.url}")

    def _answer(self, status: int, url: str) -> None:
        if status >= 400:
            self.found.append(f"{status} from {url}")


Theme = Literal["dark", "light"]
THEMES: tuple[Theme, ...] = get_args(Theme)
HEIGHT_PX = 900


@dataclass(frozen=True)
class Look:
    """A theme, and the width of the window in pixels."""

    theme: Theme
    width: int

    def __str__(self) -> str:
        return f"{self.theme}-{self.width}"

    def turn(self, page: Page) -> None:
        """Give an open page this look."""
        page.emulate_media(color_scheme=self.theme)
        page.set_viewport_size({"width": self.width, "height": HEIGHT_PX})


LAPTOP = Look("light", 1440)


@contextmanager
def looking(browser: Browser, address: str, look: Look = LAPTOP) -> Iterator[tuple[Page, Complaints]]:
    """A page of a new visitor with this look; what it complained of is the caller's to judge."""
    context: BrowserContext = browser.new_context(
        viewport={"width": look.width, "height": HEIGHT_PX}, color_scheme=look.theme, reduced_motion="reduce"
    )
    page = context.new_page()
    complaints = Complaints(urlsplit(address).netloc)
    complaints.watch(page)
    try:
        yield page, complaints
    finally:
        context.close()
