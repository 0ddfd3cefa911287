"""Where the links of the pages lead: each of them somewhere, whatever the texts on the pages name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from html import unescape
from urllib.parse import urldefrag, urljoin, urlsplit

import pytest
from sqlalchemy import update
from starlette.testclient import TestClient

from configs.settings import Settings
from dashboard.app import create_app
from db.models import Event, Finding, Hypothesis, Verdict
from db.session import Database
from tests.history.large_history import large_history
from tests.history.large_story import Size

BASE = "http://127.0.0.1"
NAMING = "As E-0003 said; unlike H-999, E-9999, F-999 and C-99, which are elsewhere."
TEXTS = {
    Event: ("text",),
    Finding: ("claim",),
    Hypothesis: ("claim", "rank_reason", "rationale", "refuted_if", "state_reason"),
    Verdict: ("reason",),
}
"""Columns that hold sentences."""

OF_A_KIND = 2
"""Addresses followed that differ in their numbers or in the values of their query alone."""

HREF = re.compile(r'<a\b[^>]*\bhref="([^"]*)"')


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    found = large_history(tmp_path_factory.mktemp("links"), Size(experiments=24, events=60))
    with found.write() as session:
        for model, columns in TEXTS.items():
            session.execute(update(model).values(dict.fromkeys(columns, NAMING)))
    yield found
    found.close()


@pytest.fixture(scope="module")
def pages(database: Database, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str, str]]:
    """By address its status, its text and the page that leads there, of all that links lead to from Now."""
    app = create_app(Settings(data_dir=tmp_path_factory.mktemp("data")), database)
    client = TestClient(app, base_url=BASE, follow_redirects=False)
    found: dict[str, tuple[int, str, str]] = {}
    kinds: Counter[str] = Counter()
    waiting = [("/", "")]
    while waiting:
        address, source = waiting.pop(0)
        if address in found:
            continue
        kind = re.sub(r"\d+", "0", re.sub(r"=[^&]*", "=", address))
        kinds[kind] += 1
        if kinds[kind] > OF_A_KIND:
            continue
        answer = client.get(address)
        is_page = "html" in answer.headers.get("content-type", "")
        found[address] = (answer.status_code, answer.text if is_page else "", source)
        if is_page:
            waiting += [(each, address) for each, _ in links(found[address][1], address)]
    return found


def links(html: str, address: str) -> Iterator[tuple[str, str]]:
    """The addresses on this server that a page links to, with the place on the page that each names."""
    for each in HREF.findall(html):
        there = urldefrag(urljoin(BASE + address, unescape(each)))
        if urlsplit(there.url).hostname == "127.0.0.1":
            yield there.url.removeprefix(BASE) or "/", there.fragment


def test_every_link_leads_somewhere(pages: dict[str, tuple[int, str, str]]) -> None:
    dead = {address: each for address, each in pages.items() if each[0] not in (200, 303, 307)}
    assert not dead, [f"{address} on {source}: {status}" for address, (status, _, source) in dead.items()]
    assert len(pages) > 100


def test_every_place_on_a_page_that_a_link_names_is_there(pages: dict[str, tuple[int, str, str]]) -> None:
    named = {
        (there, place, address)
        for address, (_, text, _) in pages.items()
        for there, place in links(text, address)
        if place and there in pages
    }
    missing = [each for each in named if f'id="{each[1]}"' not in pages[each[0]][1]]
    assert not missing, sorted(missing)[:5]
    assert named


def test_what_a_text_names_is_a_link_where_it_is_there_and_else_only_text(
    pages: dict[str, tuple[int, str, str]],
) -> None:
    naming = [text for _, text, _ in pages.values() if "which are elsewhere" in text]
    linking = [text for text in naming if "said; unlike H-999, E-9999, F-999 and C-99" in text]
    assert any('As <a class="nb" href="/experiments/E-0003">E-0003</a> said' in text for text in linking)
    assert not [text for text in naming if re.search(r'href="[^"]*(H-999|E-9999|F-999|C-99)\b', text)]
