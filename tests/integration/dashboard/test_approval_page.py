"""What waits for approval, on the queue and on the Now page: shown, approved, taken back; by keys too."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from starlette.testclient import TestClient

from configs.settings import Settings
from dashboard.app import create_app
from db import events
from db.event_kinds import EventKind
from db.models import Campaign, Hypothesis
from db.states import CampaignState
from tests.history.awaiting import COST_S, MOST_S, let_wait
from tests.history.campaign_history import History
from tests.history.large_history import large_history
from tests.history.large_story import Size
from tests.integration.dashboard.accessibility import faults_of, sideways
from tests.integration.dashboard.browser import browser, looking
from tests.integration.dashboard.serving import serving
from tests.integration.dashboard.test_journeys import on, tab_to

__all__ = ["browser"]

BASE = "http://127.0.0.1"


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    found = History(tmp_path)
    for rank, change in enumerate(
        ({"serving.threads": 1}, {"serving.dtype": "bfloat16"}, {"serving.compile": "default"}), start=1
    ):
        number = found.propose(change, claim=f"Claim {rank}.", rank=rank)
        with found.database.write() as session:
            session.get_one(Hypothesis, number).score = {"score": 0.001 / rank, "cost_s": 60.0}
    let_wait(found.database, 1, 3)
    yield found
    found.close()


@pytest.fixture
def client(history: History, tmp_path: Path) -> TestClient:
    app = create_app(Settings(data_dir=tmp_path), history.database)
    return TestClient(app, base_url=BASE, follow_redirects=False)


def send(client: TestClient, act: str, **fields: str) -> tuple[int, str]:
    headers = {"origin": BASE, "hx-request": "true"}
    answer = client.post(f"/queue/{act}", data={"campaign": "C-1", **fields}, headers=headers)
    return answer.status_code, re.sub(r"<[^>]+>", "", answer.text).strip()


def test_the_queue_says_what_waits_at_which_price_and_what_fits_without_it(client: TestClient) -> None:
    page = client.get("/queue").text
    assert "Three queued; two wait for approval, the rest fits the budget." in page
    assert page.count("Waits for approval.</b> 12\u202fmin 30\u202fs expected, 40\u202fmin if all") == 2
    assert page.count('action="/queue/approve"') == 2
    assert 'name="up_to_s" value="2400.0"' in page
    only = client.get("/queue.json?awaiting=true").json()["board"]
    assert [row["id"] for row in only["rows"]["items"]] == ["H-001", "H-003"]
    assert (only["awaiting"], only["waiting"], only["fit"]) == (2, 3, 1)
    assert only["rows"]["items"][0]["approval"] == {
        "waits": True,
        "cost_s": COST_S,
        "most_s": MOST_S,
        "event_id": None,
    }
    first = next(csv.DictReader(client.get("/queue.csv").text.splitlines()))
    asked = (first["most_s"], first["awaits_approval"], first["approved_by_event"])
    assert asked == ("2400.0", "True", "")


def test_it_is_approved_once_and_taken_back(client: TestClient, history: History) -> None:
    assert send(client, "approve", hypothesis="H-001", up_to_s="2400.0") == (
        200,
        "H-001 is approved: it is tested when its turn comes.",
    )
    assert send(client, "approve", hypothesis="H-001")[0] == 200, "it stays so"
    page = client.get("/queue").text
    assert "Approved: it is tested when its turn comes." in page
    assert "H-001 may be tested, up to 40\u202fmin." in page
    assert send(client, "unapprove", hypothesis="H-001") == (200, "H-001 is not approved any more.")
    assert client.get("/queue").text.count('action="/queue/approve"') == 2
    with history.database.read() as session:
        told = [each.kind for each in events.latest(session, 2)]
    assert told == [EventKind.DIRECTIVE_GIVEN.value, EventKind.DIRECTIVE_LIFTED.value]


@pytest.mark.parametrize(
    ("act", "fields", "said"),
    [
        (
            "approve",
            {"hypothesis": "H-002"},
            "H-002 does not wait for approval: it is expected to take",
        ),
        ("unapprove", {"hypothesis": "H-001"}, "H-001 was not approved."),
        (
            "approve",
            {"hypothesis": "H-001", "up_to_s": "700"},
            "which is more than 11\u202fmin 40\u202fs",
        ),
        ("approve", {"hypothesis": "H-001", "up_to_s": "nan"}, "are no seconds"),
        ("approve", {"hypothesis": "H-001", "up_to_s": "-1"}, "are no seconds"),
    ],
)
def test_what_can_not_be_approved_is_refused_in_a_sentence(
    client: TestClient, act: str, fields: dict[str, str], said: str
) -> None:
    status, told = send(client, act, **fields)
    assert status == 409
    assert said in told


def test_the_now_page_lists_what_waits_until_it_is_approved(client: TestClient) -> None:
    assert "2 hypotheses wait for your approval." in client.get("/").text
    told = client.get("/now.json").json()
    assert [row["id"] for row in told["awaiting"]] == ["H-001", "H-003"]
    assert "is interrupted; 2 to approve" in client.get("/?since=0").text
    send(client, "approve", hypothesis="H-001")
    assert "1 hypothesis waits for your approval." in client.get("/").text
    send(client, "approve", hypothesis="H-003")
    assert 'id="approvals"' not in client.get("/").text


def test_an_ended_campaign_says_how_what_is_approved_is_tested(client: TestClient, history: History) -> None:
    with history.database.write() as session:
        session.get_one(Campaign, 1).state = CampaignState.STOPPED
    assert (
        '<code class="cli">autoinfer run --resume C-1</code>' in client.get("/").text.partition("asks-b")[2]
    )


def test_the_term_stands_on_the_pages_of_the_campaign_and_the_hypothesis(client: TestClient) -> None:
    page = client.get("/campaigns/C-1").text
    assert "of what is expected to take more than 10\u202fmin" in page
    assert "2 wait</a>" in page
    assert "Waits for your approval." in client.get("/hypotheses/H-001").text


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("approval")
    database = large_history(folder, Size(experiments=24, events=60))
    let_wait(database, 2, 3, 5)
    database.close()
    return folder


# In the suite the acts are asked for above, and keys reach rows and buttons in test_journeys.py.
@pytest.mark.bench_only
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_waits_is_approved_by_keys_on_now_and_taken_back_in_the_queue(
    browser: Browser, data_dir: Path
) -> None:
    with serving(data_dir) as address, looking(browser, address) as (page, complaints):
        page.goto(address + "/")
        waiting = page.locator("#approvals li")
        expect(waiting).to_have_count(3)
        first, second, third = (
            each.removeprefix("ap-") for each in waiting.evaluate_all("rows => rows.map(row => row.id)")
        )
        assert faults_of(page) == []
        tab_to(page, on(page, f"^Approve {first}$"))
        page.keyboard.press("Enter")
        expect(page.locator("#said")).to_contain_text(f"{first} is approved")
        expect(waiting).to_have_count(2)  # by a push
        here = "document.activeElement.closest('li')?.id"
        assert page.evaluate(here) == f"ap-{second}", "the focus is on what came into its place"
        tab_to(page, on(page, f"^Approve {second}$"))
        page.keyboard.press("Enter")
        expect(waiting).to_have_count(1)

        page.goto(address + "/queue?awaiting=true")
        expect(page.locator("#rows tr")).to_have_count(1)
        tab_to(page, on(page, f"^Approve {third}$"))
        page.keyboard.press("Enter")
        expect(page.locator("#said")).to_contain_text(f"{third} is approved")
        page.goto(address + "/queue")
        tab_to(page, on(page, f"^Take it back, the approval of {third}$"))
        page.keyboard.press("Enter")
        expect(page.get_by_role("button", name=f"Approve {third}")).to_be_visible()
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)
            assert faults_of(page) == []
        page.set_viewport_size({"width": 390, "height": 844})
        assert sideways(page) == []
        assert complaints.found == []
