"""Kept answers on the real pages: each changes with every write, and some tell of nothing else."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from configs.settings import Settings
from dashboard.app import PAGES, create_app
from dashboard.page import ALWAYS_S, Page
from dashboard.routes import Server
from dashboard.web.access import Access, with_token
from dashboard.web.security import TOKEN_COOKIE
from db import events
from db.event_kinds import EventKind
from db.labels import Noun
from db.session import Database
from tests.history.large_history import large_history
from tests.history.large_story import Size
from tests.integration.dashboard.serving import addresses

NUMBERS = {Noun.CAMPAIGN: 1, Noun.HYPOTHESIS: 30, Noun.EXPERIMENT: 31, Noun.FINDING: 2}
TOKEN = "a-secret"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    database = large_history(tmp_path_factory.mktemp("kept"), Size(experiments=40, events=400))
    yield database
    database.close()


def client_of(database: Database, access: Access | None = None) -> TestClient:
    app = create_app(Settings(data_dir=Path("/nowhere")), database, access)
    return TestClient(app, base_url="http://127.0.0.1")


def note(database: Database) -> None:
    with database.write() as session:
        events.append(session, EventKind.NOTE_ADDED, "a note")


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each page was read for its HTML."""
    counted: Counter[str] = Counter()
    whole = Server.whole

    def counting(server: Server, page: Page[Any, Any], request: Any, address: str) -> Any:
        counted[page.name] += 1
        return whole(server, page, request, address)

    monkeypatch.setattr(Server, "whole", counting)
    return counted


def test_a_page_is_read_once_until_something_is_written_and_then_at_once(
    database: Database, read: Counter[str]
) -> None:
    client = client_of(database)
    for page in PAGES:
        address = addresses(NUMBERS)[page.name]
        for _ in range(3):
            assert client.get(address).status_code == 200, address
        assert page.lasts_s < ALWAYS_S or read[page.name] == 1, address
        before = read[page.name]
        note(database)
        client.get(address)
        assert read[page.name] == before + 1, address


def test_a_view_that_is_kept_until_a_write_tells_of_nothing_but_the_database(database: Database) -> None:
    """Two apps read everything, one after the other: a clock in milliseconds would have gone on between."""
    told: list[dict[str, str]] = []
    for _ in range(2):
        client = client_of(database)
        told.append({})
        for page in PAGES:
            if page.lasts_s == ALWAYS_S:
                path, _, query = addresses(NUMBERS)[page.name].partition("?")
                answer = client.get(f"{path}.json?{query}")
                assert answer.status_code == 200, path
                told[-1][page.name] = json.dumps(answer.json(), sort_keys=True)
    assert told[0] == told[1]


def test_who_has_no_token_is_given_nothing_that_was_kept_for_another(database: Database) -> None:
    client = client_of(database, with_token(TOKEN))
    admitted = {"cookie": f"{TOKEN_COOKIE}={TOKEN}"}
    told = client.get("/hypotheses", headers=admitted)
    assert (told.status_code, "H-030" in told.text) == (200, True)
    for headers in ({}, {"cookie": f"{TOKEN_COOKIE}=wrong"}):
        refused = client.get("/hypotheses", headers=headers)
        assert (refused.status_code, "H-030" in refused.text) == (401, False)
    assert client.get("/hypotheses", headers=admitted).text == told.text
