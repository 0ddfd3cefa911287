"""Who may ask, who may write, and what the browser is told it may do."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from configs.errors import DatabaseUnreachable
from dashboard.web.access import STORED_FOR_S, Access, StoredTokens, is_loopback, with_token
from dashboard.web.security import HEADERS, TOKEN_COOKIE, Guard, refused
from db.access_tokens import digest_of, give, revoke
from db.session import open_database

TEMPLATES = Path(__file__).parents[3] / "dashboard" / "templates"


def client(access: Access, base: str = "http://127.0.0.1:8420") -> TestClient:
    def told(request: Request) -> PlainTextResponse:
        return PlainTextResponse(f"seen {request.url.query}")

    app = Starlette(routes=[Route("/", told, methods=["GET", "POST"])])
    app.add_middleware(Guard, access=access)
    return TestClient(app, base_url=base)


@pytest.mark.parametrize("host", ["127.0.0.1:8420", "localhost", "LOCALHOST:1", "[::1]:8420"])
def test_a_loopback_server_answers_to_loopback_names(host: str) -> None:
    assert refused("GET", Headers({"host": host}), loopback_only=True) is None


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "[::1", "localhost@evil.example"]
)
def test_and_to_no_other_which_a_page_elsewhere_could_point_at_it(host: str) -> None:
    assert refused("GET", Headers({"host": host}), loopback_only=True) is not None


SAME = {"host": "127.0.0.1:8420"}


@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        ({}, True),
        ({"origin": "http://127.0.0.1:8420"}, True),
        ({"origin": "http://127.0.0.1:8420", "sec-fetch-site": "same-origin"}, True),
        ({"origin": "http://127.0.0.1:9999"}, False),
        ({"origin": "http://evil.example"}, False),
        ({"origin": "null"}, False),
        ({"sec-fetch-site": "cross-site"}, False),
        ({"origin": "http://127.0.0.1:8420", "sec-fetch-site": "cross-site"}, False),
    ],
)
def test_a_write_comes_from_a_page_of_this_server(headers: dict[str, str], allowed: bool) -> None:
    assert (refused("POST", Headers({**SAME, **headers}), loopback_only=True) is None) is allowed
    assert refused("GET", Headers({**SAME, **headers}), loopback_only=True) is None


def test_every_answer_has_the_headers_refusals_too() -> None:
    with client(Access()) as browser:
        for answer in (browser.get("/"), browser.post("/", headers={"origin": "http://evil.example"})):
            assert {name: answer.headers[name] for name in HEADERS} == HEADERS


def test_another_address_asks_for_its_token_once() -> None:
    with client(with_token("secret"), "http://192.0.2.1:8420") as browser:
        assert browser.get("/").status_code == 401
        assert browser.get("/?token=wrong").status_code == 401
        admitted = browser.get("/?token=secret&a=1", follow_redirects=False)
        assert (admitted.status_code, admitted.headers["location"]) == (303, "/?a=1")
        cookie = admitted.headers["set-cookie"]
        assert cookie.startswith(f"{TOKEN_COOKIE}=secret;")
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        assert browser.get("/").text == "seen "


def test_a_command_may_give_the_token_as_a_header() -> None:
    with client(with_token("secret"), "http://192.0.2.1:8420") as command:
        assert command.get("/", headers={"authorization": "Bearer secret"}).status_code == 200
        assert command.get("/", headers={"authorization": "Bearer sécret".encode()}).status_code == 401


def test_an_empty_token_opens_nothing_though_nothing_is_held() -> None:
    assert not Access(asks=True).allows("")
    with client(Access(asks=True), "http://192.0.2.1:8420") as browser:
        for given in ({}, {"authorization": "Bearer "}, {"cookie": f"{TOKEN_COOKIE}="}):
            assert browser.get("/?token=", headers=given).status_code == 401


def test_every_digest_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[str, str]] = []

    def heard(one: str, other: str) -> bool:
        compared.append((one, other))
        return one == other

    monkeypatch.setattr("dashboard.web.access.hmac.compare_digest", heard)
    held = [digest_of(name) for name in ("first", "second", "third")]
    assert Access(asks=True, tokens=lambda: dict.fromkeys(held)).allows("first")
    assert compared == [(held[0], each) for each in held], "the one that fits ends nothing"


def test_a_stored_token_opens_from_when_it_is_given_until_it_is_revoked(tmp_path: Path) -> None:
    at = [0.0]
    database = open_database(f"sqlite:///{tmp_path}/a.db", create=True)
    try:
        access = Access(asks=True, tokens=StoredTokens(database, digest_of("own"), clock=lambda: at[0]))
        with database.write() as session:
            token = give(session, "laptop")
        with client(access, "http://192.0.2.1:8420") as command:

            def answered(given: str) -> int:
                return command.get("/", headers={"authorization": f"Bearer {given}"}).status_code

            assert [answered(each) for each in (token, "own", "other", digest_of("own"))] == [
                200,
                200,
                401,
                401,
            ]
            with database.write() as session:
                revoke(session, "laptop")
            at[0] += STORED_FOR_S
            assert [answered(each) for each in (token, "own")] == [401, 200]
    finally:
        database.close()


def test_where_the_database_does_not_answer_nobody_is_let_in() -> None:
    def unreachable() -> dict[str, str | None]:
        raise DatabaseUnreachable("The database does not answer.", "Start it.")

    with client(Access(asks=True, tokens=unreachable), "http://192.0.2.1:8420") as browser:
        answer = browser.get("/", headers={"authorization": "Bearer token"})
        assert (answer.status_code, "does not answer" in answer.text) == (503, True)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("a.b", False),
    ],
)
def test_which_addresses_this_machine_alone_can_reach(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


REPORT = TEMPLATES / "report" / "page.html"
"""One file that is read without the dashboard: its style is its own, and its policy asks for nothing."""


def test_no_template_has_a_script_a_style_or_a_handler_in_it() -> None:
    for path in TEMPLATES.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        if path == REPORT:
            assert 'http-equiv="Content-Security-Policy"' in text
            assert "<script" not in text
            text = text.replace("<style>{{ style }}</style>", "")
        assert "style=" not in text, path
        assert "<style" not in text, path
        assert " on" not in [word[:3] for word in text.split() if "=" in word and word.startswith("on")], path
        for script in text.split("<script")[1:]:
            assert 'src="{{ static(' in script.split(">")[0], path
            assert script.split(">", 1)[1].startswith("</script>"), path
