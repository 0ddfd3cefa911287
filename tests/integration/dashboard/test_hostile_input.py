"""What the pages do with input that means harm: text that is markup, addresses of nothing, forged senders."""

from __future__ import annotations

from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import get_args
from urllib.parse import quote

import pytest
from sqlalchemy import update
from starlette.responses import HTMLResponse
from starlette.testclient import TestClient

from configs.settings import Settings
from dashboard.app import PAGES, create_app
from dashboard.routes import AnyPage
from dashboard.web.access import with_token
from dashboard.web.security import HEADERS
from db import events
from db.labels import Noun
from db.models import Campaign, Event, Finding, Hypothesis, Verdict
from db.session import Database
from tests.history.large_history import large_history
from tests.history.large_story import Size
from tests.integration.dashboard.serving import addresses

BASE = "http://127.0.0.1"
TOKEN = "a-secret"
MARKUP = "</code>\"'><script>alert(1)</script><img src=x onerror=alert(1)>"
NUMBERS = {Noun.CAMPAIGN: 1, Noun.HYPOTHESIS: 5, Noun.EXPERIMENT: 6, Noun.FINDING: 1}

TEXTS = (
    (Campaign, "name"),
    (Event, "text"),
    (Finding, "claim"),
    (Hypothesis, "claim"),
    (Hypothesis, "lever"),
    (Hypothesis, "proposer"),
    (Hypothesis, "rank_reason"),
    (Hypothesis, "rationale"),
    (Hypothesis, "refuted_if"),
    (Hypothesis, "state_reason"),
    (Verdict, "reason"),
)
"""Columns that hold what somebody, or some program, wrote."""

NUMBERS_OF_NOTHING = (
    "-1",
    "9223372036854775807",
    "9223372036854775808",
    "1" + "0" * 400,
    "1e999",
    "nan",
    "٣",
)
WORDS_OF_NOTHING = ("\0", "%\\_'\"", "'; DROP TABLE event; --", "x" * 5_000, MARKUP, "‮\N{BOM}😀")
LABELS_OF_NOTHING = (
    "E-9999",
    "H-999999999999999999999",
    "F-0",
    "C--1",
    "..%2F..%2Fetc%2Fpasswd",
    "%00",
    "é",
    "x" * 500,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


@pytest.fixture(scope="module")
def database(folder: Path) -> Iterator[Database]:
    found = large_history(folder, Size(experiments=24, events=60))
    with found.write() as session:
        for model, column in TEXTS:
            session.execute(update(model).values({column: MARKUP}))
    yield found
    found.close()


@pytest.fixture(scope="module")
def client(folder: Path, database: Database) -> TestClient:
    return TestClient(create_app(Settings(data_dir=folder), database), base_url=BASE, follow_redirects=False)


def test_text_that_is_markup_is_only_text_on_every_page(client: TestClient) -> None:
    shown = []
    for page in addresses(NUMBERS).values():
        answer = client.get(page)
        assert answer.status_code == 200, page
        for harm in ("<script>alert", "<img src=x"):
            assert harm not in answer.text, f"{harm} on {page}"
        shown.append(MARKUP in unescape(answer.text))
    assert sum(shown) > len(shown) // 2, "hardly a page shows the text that is looked for"


def fields(page: AnyPage) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each filter of a page with values that mean nothing."""
    for name, field in page.filters.model_fields.items():
        kinds = {field.annotation, *get_args(field.annotation)}
        yield name, NUMBERS_OF_NOTHING if kinds & {int, float} else WORDS_OF_NOTHING


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_filter_of_a_page_is_its_end(client: TestClient, page: AnyPage) -> None:
    path = addresses(NUMBERS)[page.name].partition("?")[0]
    for name, values in fields(page):
        for value in values:
            answer = client.get(f"{path}?{name}={quote(value)}")
            assert answer.status_code in (200, 404, 422), (name, value, answer.status_code)
            assert "Traceback" not in answer.text
            assert "<script>alert" not in answer.text


def test_a_label_of_nothing_is_told_in_a_sentence(client: TestClient) -> None:
    for page in PAGES:
        if "{label}" not in page.path:
            continue
        for label in LABELS_OF_NOTHING:
            for ending in ("", ".json"):
                answer = client.get(page.path.replace("{label}", label) + ending)
                assert answer.status_code in (404, 422), (page.name, label)
                assert "Traceback" not in answer.text


def test_a_mistake_of_autoinfers_own_is_told_in_a_sentence_on_a_page_of_the_house(
    folder: Path, database: Database
) -> None:
    app = create_app(Settings(data_dir=folder), database)
    for path in ("/mistaken", "/mistaken.json"):
        app.add_api_route(path, lambda: {}["of nothing"], response_class=HTMLResponse)
    client = TestClient(app, base_url=BASE, raise_server_exceptions=False)
    page = client.get("/mistaken")
    assert page.status_code == 500
    assert "autoinfer made a mistake (KeyError) and has no answer here." in page.text
    assert "of nothing" not in page.text, "what it was about may be a secret"
    assert page.headers.items() >= HEADERS.items()
    assert client.get("/mistaken.json").json()["error"].startswith("autoinfer made a mistake")


def every_address(client: TestClient) -> list[tuple[str, str]]:
    """Method and path of everything in the interface's description, and what is not in it."""
    paths = client.app.openapi()["paths"]  # type: ignore[attr-defined]
    told = [(method.upper(), path) for path, methods in paths.items() for method in methods]
    filled = [(method, path.replace("{label}", "E-0001")) for method, path in told]
    return [
        *filled,
        ("GET", "/docs"),
        ("GET", "/openapi.json"),
        ("GET", "/log.stream"),
        ("GET", "/static/css/now.css"),
    ]


def test_what_a_page_of_elsewhere_sends_does_nothing(client: TestClient, database: Database) -> None:
    with database.read() as session:
        before = events.last_id(session)
    sent = [path for method, path in every_address(client) if method == "POST"]
    assert "/enqueue" in sent
    form = {"campaign": "C-1", "hypothesis": "H-026", "to": "1", "sure": "1", "claim": "x"}
    for path in sent:
        for origin in (
            "http://evil.example",
            "null",
            "http://127.0.0.1:9",
            "http://127.0.0.1.evil.example",
            "",
        ):
            answer = client.post(path, data=form, headers={"origin": origin})
            assert answer.status_code == 403, (path, origin)
        assert client.post(path, data=form, headers={"sec-fetch-site": "cross-site"}).status_code == 403
        assert client.get(path).status_code in (200, 404, 405), "an act is no link"
    with database.read() as session:
        assert events.last_id(session) == before


def test_nothing_is_given_to_a_name_of_elsewhere(client: TestClient) -> None:
    for method, path in every_address(client):
        answer = client.request(method, path, headers={"host": "evil.example"})
        assert (answer.status_code, "evil.example" in answer.text) == (403, True), path


def test_on_another_address_nothing_is_given_without_the_token(folder: Path, database: Database) -> None:
    app = create_app(Settings(data_dir=folder), database, with_token(TOKEN))
    outside = TestClient(app, base_url="http://192.0.2.1:8420", follow_redirects=False)
    for method, path in every_address(outside):
        for headers in ({}, {"authorization": "Bearer wrong"}, {"cookie": "autoinfer-token=wrong"}):
            answer = outside.request(method, path, headers=headers)
            assert answer.status_code == 401, path
            assert MARKUP[:20] not in unescape(answer.text)
    known = {"authorization": f"Bearer {TOKEN}"}
    assert outside.get("/costs.json", headers=known).status_code == 200
    forged = {**known, "origin": "http://evil.example"}
    assert (
        outside.post("/queue/stop", data={"campaign": "C-1", "sure": "1"}, headers=forged).status_code == 403
    )
