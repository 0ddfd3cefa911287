"""Caps, minimum shares, the question of the night and a verdict's consequences on the pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from configs.settings import Settings
from dashboard.app import create_app
from db.models import Hypothesis
from db.states import VerdictOutcome
from tests.history.campaign_history import History

BASE = "http://127.0.0.1"


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    found = History(tmp_path)
    for rank, change in enumerate(
        ({"serving.threads": 1}, {"serving.dtype": "bfloat16"}, {"serving.compile": "default"}), start=1
    ):
        number = found.propose(change, claim=f"Claim {rank}.", rank=rank, rank_reason=f"{rank}: it pays")
        with found.database.write() as session:
            session.get_one(Hypothesis, number).score = {"score": 0.001 / rank, "cost_s": 60.0}
    yield found
    found.close()


@pytest.fixture
def client(history: History, tmp_path: Path) -> TestClient:
    app = create_app(Settings(data_dir=tmp_path), history.database)
    return TestClient(app, base_url=BASE, follow_redirects=False)


def words(page: str) -> str:
    return unescape(re.sub(r"<[^>]+>", "", page)).replace("\N{NARROW NO-BREAK SPACE}", " ")


def send(client: TestClient, act: str, **fields: str) -> tuple[int, str]:
    headers = {"origin": BASE, "hx-request": "true"}
    answer = client.post(f"/queue/{act}", data={"campaign": "C-1", **fields}, headers=headers)
    return answer.status_code, words(answer.text).strip()


def test_a_cap_and_a_minimum_share_are_given_shown_with_how_far_they_are_and_lifted(
    client: TestClient, history: History
) -> None:
    assert send(client, "steer", kind="cap", lever="threads", amount="2") == (
        200,
        "Give threads at most 2 tests. The next ranking follows it.",
    )
    assert send(client, "steer", kind="reserve", lever="dtype", amount="30%")[0] == 200
    history.judge(1, VerdictOutcome.REFUTED)
    page = client.get("/queue").text
    assert "Give threads at most 2 tests. <b" in page
    assert "1 of 1 tests so far." in page
    assert "<b>Minimum share</b> on <code>dtype</code>" in page
    assert client.get("/queue.json").json()["board"]["used"] == {
        "D-1": "1 of 1 tests so far",
        "D-2": "0 of 1 tests so far",
    }
    for kind, lever in (("cap", "threads"), ("reserve", "dtype")):
        assert send(client, "lift", kind=kind, lever=lever)[0] == 200
    assert "at most 2 tests" not in client.get("/queue").text.partition("Directives in force")[2]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "cap", "lever": "threads"}, "How much? A cap takes an amount."),
        ({"kind": "reserve", "lever": "threads", "amount": "3"}, "'3' is not a percentage."),
        ({"kind": "cap", "lever": "threads", "amount": "100%"}, "A cap of 100% of all tests is none."),
        ({"kind": "cap", "lever": "none", "amount": "3"}, "There is no lever 'none' in C-1."),
        ({"kind": "pin", "lever": "threads"}, "'pin' is nothing to do with a lever."),
    ],
)
def test_what_is_no_steering_is_refused_in_a_sentence(
    client: TestClient, fields: dict[str, str], message: str
) -> None:
    status, said = send(client, "steer", **fields)
    assert status == 409
    assert said.startswith(message)


def test_what_contradicts_is_refused_in_a_sentence(client: TestClient) -> None:
    send(client, "steer", kind="reserve", lever="threads", amount="60%")
    status, said = send(client, "steer", kind="reserve", lever="dtype", amount="60%")
    assert status == 409
    assert "60 % for threads + 60 % for dtype = 120 %" in said
    assert "which a ban contradicts" in send(client, "steer", kind="ban", lever="threads")[1]


def test_an_amount_that_is_left_in_the_form_counts_for_no_focus(client: TestClient) -> None:
    assert send(client, "steer", kind="focus", lever="threads", amount="3")[0] == 200


def test_the_question_of_the_night_stands_on_queue_and_now_until_it_is_done_with(
    client: TestClient, history: History
) -> None:
    assert send(client, "question", hypothesis="H-003")[0] == 200
    for path in ("/queue", "/"):
        page = client.get(path).text
        assert "The question of the night:" in page
        assert "Not settled yet: it is put first at the next ranking." in page
    assert "The question of the night.</p>" in client.get("/queue").text
    history.judge(3, VerdictOutcome.SUPPORTED)
    for path in ("/queue", "/"):
        page = words(client.get(path).text)
        assert "Settled: supported, TPOT −10.0 % [−12.0,\u00a0−8.0] (E-0001)." in page
    assert client.get("/now.json").json()["question"]["answer"] == "settled"
    assert send(client, "unquestion")[0] == 200
    assert "The question of the night:" not in client.get("/").text
    assert send(client, "unquestion") == (
        409,
        "C-1 has no question of the night. Ask one with: autoinfer question H-ID",
    )


def test_what_a_cap_holds_back_says_so_in_its_row(client: TestClient, history: History) -> None:
    with history.database.write() as session:
        row = session.get_one(Hypothesis, 3)
        row.score = {**(row.score or {}), "paused": True, "capped_by": 9}
        row.rank_reason = "third: could save 1 %; held back by the cap of 1 test on compile by you at 12:03"
    page = client.get("/queue").text
    assert "Held back by the cap of 1 test on compile by you at 12:03." in page
    assert "Paused by a ban." not in page


def test_a_row_s_menu_asks_what_if_and_its_address_says_the_verdict(client: TestClient) -> None:
    page = client.get("/queue").text
    assert page.count('hx-get="/queue/what-if"') == 3
    assert 'hx-target="#if-H-003"' in page
    assert "/queue/what-if?campaign=C-1&amp;hypothesis=H-003" in page


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("outcome=maybe", 404),
        ("outcome=inconclusive", 404),
        ("saves=0", 422),
        ("saves=100", 422),
        ("saves=x", 422),
    ],
)
def test_a_verdict_that_is_none_is_refused(client: TestClient, query: str, status: int) -> None:
    answer = client.get(f"/queue/what-if?hypothesis=H-001&{query}")
    assert answer.status_code == status
    assert "Traceback" not in answer.text
