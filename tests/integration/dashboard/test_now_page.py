"""The Now page and its twin by an app on a campaign's history."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import event
from starlette.testclient import TestClient

from configs.settings import Settings
from dashboard.app import create_app
from db.models import Campaign
from db.states import VerdictOutcome
from knowledge.acts.steering import pause_campaign
from tests.history.campaign_history import History, a_full_history

BASE = "http://127.0.0.1"


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    found = a_full_history(tmp_path)
    yield found
    found.close()


@pytest.fixture
def client(history: History, tmp_path: Path) -> TestClient:
    return TestClient(create_app(Settings(data_dir=tmp_path), history.database), base_url=BASE)


def test_the_page_opens_at_the_root_and_its_twin_says_the_same(client: TestClient) -> None:
    html, told = client.get("/"), client.get("/now.json").json()
    assert html.status_code == 200
    assert told["campaign"]["standing"] == "testing" or told["runs"]
    assert told["lead"] in html.text
    assert all(row["claim"] in html.text for row in told["next"])
    assert 'href="/now.json"' in html.text
    assert "style=" not in html.text  # the policy refuses it


def test_what_the_campaign_is_about_is_called_as_everywhere(client: TestClient, history: History) -> None:
    assert "TPOT at concurrency 1 of" in client.get("/").text
    with history.database.write() as session:
        campaign = session.get_one(Campaign, 1)
        campaign.objective = {**campaign.objective, "metric": "e2el_ms"}
    page = client.get("/").text
    assert "End-to-end latency at concurrency 1 of" in page
    assert "E2EL" not in page


def test_all_state_is_in_the_address(client: TestClient) -> None:
    assert "Since you last looked" in client.get("/?campaign=C-1&since=1").text
    assert client.get("/now.json?since=1").json()["digest"]["since"] == 1
    assert "Since you last looked" not in client.get("/").text


def test_a_paused_campaign_is_resumed_from_the_page(client: TestClient, history: History) -> None:
    with history.database.write() as session:
        pause_campaign(session, history.campaign_id)
    html = client.get("/").text
    assert 'action="/queue/resume"' in html
    assert 'name="campaign" value="C-1"' in html
    answer = client.post(
        "/queue/resume", data={"campaign": "C-1"}, headers={"origin": BASE}, follow_redirects=False
    )
    assert answer.status_code == 303
    assert 'action="/queue/resume"' not in client.get("/").text


@pytest.mark.parametrize(("query", "status"), [("campaign=C-9", 404), ("campaign=x", 404), ("since=-1", 422)])
def test_an_address_that_makes_no_sense_is_refused_in_a_sentence(
    client: TestClient, query: str, status: int
) -> None:
    answer = client.get(f"/?{query}")
    assert answer.status_code == status
    assert "Traceback" not in answer.text


def test_as_many_statements_for_many_hypotheses_as_for_few(client: TestClient, history: History) -> None:
    said: list[str] = []
    with history.database.read() as session:
        engine = session.get_bind()
    event.listen(engine, "before_cursor_execute", lambda *args: said.append(args[2]))

    def statements() -> int:
        said.clear()
        assert client.get("/?since=1").status_code == 200
        return len(said)

    few = statements()
    for rank, threads in enumerate((1, 4, 8, 16), start=5):
        decided = history.propose({"serving.threads": threads, "serving.dtype": "bfloat16"})
        history.judge(decided, VerdictOutcome.SUPPORTED, learn=False)
        history.propose({"serving.threads": threads, "serving.compile": "default"}, rank=rank)
    assert statements() == few
