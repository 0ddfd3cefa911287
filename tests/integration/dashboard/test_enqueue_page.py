"""The form for a hypothesis of one's own, and what would follow from a verdict, by an app on a history."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from starlette.testclient import TestClient

from agent.campaign.queue.enqueue import MOST_TOLD
from agent.ground.legal import Legal
from configs.settings import Settings
from dashboard.app import create_app
from db import events
from db.event_kinds import EventKind
from db.models import Campaign
from tests.history.campaign_history import SPACE, History
from tests.new_database import new_database

BASE = "http://127.0.0.1"
LEGAL = Legal(SPACE)


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    found = History(tmp_path)
    yield found
    found.close()


@pytest.fixture
def client(history: History, tmp_path: Path) -> Iterator[TestClient]:
    app = create_app(Settings(data_dir=tmp_path), history.database)
    legal_of = patch("agent.asking.preview.legal_of", return_value=LEGAL)
    with legal_of, patch("agent.campaign.queue.enqueue.legal_of", return_value=LEGAL):
        yield TestClient(app, base_url=BASE, follow_redirects=False)


def knobs(client: TestClient, query: str = "") -> set[str]:
    return {each["name"] for each in client.get(f"/enqueue.json{query}").json()["knobs"]}


def send(client: TestClient, **fields: str | list[str]) -> tuple[int, str]:
    answer = client.post("/enqueue", data=fields, headers={"origin": BASE})
    return answer.status_code, answer.headers.get("location", answer.text)


def test_a_choice_appears_when_it_becomes_legal_and_goes_when_it_does_not(client: TestClient) -> None:
    assert "pruning.layers_removed" not in knobs(client)
    assert "pruning.layers_removed" in knobs(client, "?set=pruning.method%3Ddepth&set=")
    assert "pruning.layers_removed" not in knobs(client, "?set=pruning.layers_removed%3D2")
    page = client.get("/enqueue?set=pruning.method%3Ddepth").text
    assert '<option value="pruning.method=depth" selected>' in page
    assert "autoinfer enqueue CLAIM --set pruning.method=depth" in page


@pytest.mark.parametrize("metric", ["tpot_ms", "ttft_ms"])
def test_an_effect_is_asked_for_on_what_the_campaign_is_about(
    metric: str, client: TestClient, history: History
) -> None:
    with history.database.write() as session:
        campaign = session.get_one(Campaign, 1)
        campaign.spec = {**campaign.spec, "plan": {**campaign.spec["plan"], "metric": metric}}
    assert f'placeholder="{metric.removesuffix("_ms")}=-10%±4%"' in client.get("/enqueue").text


def test_it_is_previewed_before_it_is_sent_and_writes_nothing(client: TestClient) -> None:
    found = client.get("/enqueue.json?set=serving.threads%3D1").json()
    assert found["refusal"] is None
    assert [each["knob"] for each in found["preview"]["change"]] == ["serving.threads"]
    assert found["preview"]["duplicate"] is None
    assert client.get("/queue.json").json()["board"]["waiting"] == 0


def test_it_is_sent_into_the_queue_and_a_second_time_refused_with_a_link(client: TestClient) -> None:
    given: dict[str, str | list[str]] = {
        "claim": "One <thread> is enough",
        "set": ["serving.threads=1", ""],
        "expect": "",
    }
    assert send(client, **given) == (303, "/queue#H-001")
    assert "One &lt;thread&gt; is enough" in client.get("/queue").text
    status, said = send(client, **given)
    assert status == 409
    assert (
        '<a class="nb" href="/hypotheses/H-001">H-001</a> claims the same change of the same control' in said
    )
    assert client.get("/enqueue.json?set=serving.threads%3D1").json()["preview"]["duplicate"] == "H-001"
    assert "disabled>Enqueue" in client.get("/enqueue?set=serving.threads%3D1").text


def test_a_refusal_links_what_there_is_and_not_what_there_is_not(client: TestClient) -> None:
    status, page = send(client, claim="One thread", set="serving.threads=1", campaign="C-99")
    assert status == 409
    assert "C-99 does not exist; the last is" in page
    assert '<a class="nb" href="/campaigns/C-1">C-1</a>' in page
    assert "/campaigns/C-99" not in page


def test_what_is_refused_is_told_once_in_the_log_and_what_can_t_be_read_is_not(
    client: TestClient, history: History
) -> None:
    given: dict[str, str | list[str]] = {"claim": "One thread is enough.", "set": ["serving.threads=1"]}
    send(client, **given)
    for _ in range(3):
        send(client, **given)
        send(client, claim="It is faster", set="serving.thread=1")
        send(client, claim="It is faster", set="serving.threads=1", expect="tpot=-1%")
        send(client, claim="It is faster", set="serving.threads")
        send(client, claim="", set="serving.threads=1")
        send(client, claim="It is faster", set="serving.threads=1", expect="soon")
    send(client, claim="x" * 2000, set="serving.threads=-7")
    with history.database.read() as session:
        told = events.read(session, kinds=[EventKind.HYPOTHESIS_REFUSED], campaign_id=1)
    assert [each.text.partition(":")[0] for each in told][:3] == [
        "One thread is enough (serving.threads=1), by user",
        "It is faster (serving.thread=1), by user",
        "It is faster (serving.threads=1), by user",
    ]
    assert "H-001 claims the same change" in told[0].text
    assert [each.data for each in told] == [{"proposer": "user"}] * 4
    assert len(told[3].text) < 2 * MOST_TOLD + 50


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"set": "serving.threads=1"}, "The claim is empty."),
        ({"claim": "x"}, "The hypothesis changes no knob."),
        ({"claim": "x", "set": "serving.thread=1"}, "There is no knob"),
        ({"claim": "x", "set": "serving.threads=-7"}, "serving.threads cannot be"),
        ({"claim": "x", "set": "pruning.layers_removed=2"}, "it only means something when"),
        ({"claim": "x", "set": "serving.threads=1", "expect": "tpot=-1%"}, "it refutes itself"),
        ({"claim": "x", "set": "serving.threads=1", "campaign": "C-9"}, "does not exist; the last is"),
    ],
)
def test_what_the_command_refuses_is_refused_in_the_same_sentence(
    client: TestClient, fields: dict[str, str], why: str
) -> None:
    status, said = send(client, **fields)
    assert status == 409
    assert why in said
    assert client.get("/queue.json").json()["board"]["waiting"] == 0


def test_before_anything_is_ranked_nothing_is_said_of_what_would_follow(client: TestClient) -> None:
    answer = client.get("/queue/what-if")
    assert (answer.status_code, "Nothing is ranked yet" in answer.text) == (200, True)
    assert client.get("/queue/what-if?hypothesis=E-1").status_code == 404


@pytest.mark.parametrize("path", ["/enqueue", "/queue/what-if"])
def test_without_a_campaign_the_page_says_how_to_start_one(tmp_path: Path, path: str) -> None:
    database = new_database(tmp_path)
    app = TestClient(create_app(Settings(data_dir=tmp_path), database), base_url=BASE)
    page, told = app.get(path), app.get(f"{path}.json")
    assert (page.status_code, told.status_code, told.json()["campaign"]) == (200, 200, None)
    assert "There is no campaign yet" in page.text
    assert "autoinfer run" in page.text
    assert "<form" not in page.text.partition("<main")[2].partition("</main")[0]
    assert app.get(f"{path}?campaign=C-1").status_code == 404
    database.close()
