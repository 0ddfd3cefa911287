"""The button "Confirm on…": what it shows, what it queues, and what it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from sqlalchemy import select
from starlette.testclient import TestClient

from configs.settings import Settings
from dashboard.app import create_app
from db import workers
from db.models import Event, Job, JobQuote
from tests.integration.campaign.test_promoting import THERE, Judged, measured
from tests.simulated.campaign import made_up_target, registered_here

BASE = "http://127.0.0.1"
ACT = "/experiments/E-0002/promote"
RENTED = "files:T"


@pytest.fixture
def judged(tmp_path: Path) -> Iterator[Judged]:
    """A supported test, and workers of two other targets."""
    made = measured(tmp_path)
    with made.database.write() as session:
        for device in (THERE, RENTED, "cpu"):
            workers.register(session, f"here/{device}", "here", 1, device)
    yield made
    made.database.close()


@pytest.fixture
def client(judged: Judged, tmp_path: Path) -> Iterator[TestClient]:
    app = create_app(Settings(data_dir=tmp_path), judged.database)
    with registered_here(tmp_path), patch("agent.campaign.rerun.elsewhere.find_target", made_up_target):
        yield TestClient(app, base_url=BASE, follow_redirects=False)


def queued(judged: Judged) -> list[str]:
    with judged.database.read() as session:
        return list(session.scalars(select(Job.device_class).where(Job.state == "queued").order_by(Job.id)))


def test_the_page_shows_the_command_and_the_targets_with_a_worker(client: TestClient) -> None:
    page = client.get("/experiments/E-0002").text
    assert "autoinfer promote E-0002 --target" in page
    for target in (THERE, RENTED):
        assert f"<option>{target}</option>" in page
    assert "<option>cpu</option>" not in page, "it was measured there"
    assert client.get("/experiments/E-0002.json").json()["targets"] == [THERE, RENTED]
    assert "Confirm on" not in client.get("/experiments/E-0001").text, "a baseline confirms nothing"


def test_a_click_queues_the_test_tells_it_and_is_refused_while_that_one_waits(
    client: TestClient, judged: Judged
) -> None:
    done = client.post(ACT, data={"target": THERE}, headers={"origin": BASE, "hx-request": "true"})
    assert done.status_code == 200
    assert f"E-0003 waits for its turn on {THERE}" in done.text
    assert queued(judged) == [THERE]
    with judged.database.read() as session:
        told = session.scalars(select(Event).where(Event.kind == "experiment.promoted")).one()
    assert told.subject == "E-0002"
    again = client.post(ACT, data={"target": THERE}, headers={"origin": BASE, "hx-request": "true"})
    assert again.status_code == 409
    assert "E-0003 is to confirm it on cuda:3 already" in again.text
    assert queued(judged) == [THERE]
    for page in ("/experiments/E-0002", "/experiments/E-0003", "/hypotheses/H-001", "/knowledge/F-001"):
        assert client.get(page).status_code == 200
    assert "asked for on cuda:3, no verdict yet" in client.get("/experiments/E-0002").text


def test_a_rented_target_waits_for_its_price_to_be_approved(client: TestClient, judged: Judged) -> None:
    done = client.post(ACT, data={"target": RENTED}, headers={"origin": BASE, "hx-request": "true"})
    assert "waits for a price, and then for your approval: autoinfer approve J-3" in done.text
    with judged.database.read() as session:
        quote = session.scalars(select(JobQuote)).one()
    assert (quote.needs_approval, quote.approved_microusd) == (True, 0)


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("cuda:9", "No worker takes jobs for cuda:9 now"),
        ("cpu", "E-0002 was measured on cpu itself"),
        ("", "The form says nothing of target"),
    ],
)
def test_what_can_t_be_done_is_refused_and_writes_nothing(
    client: TestClient, judged: Judged, target: str, told: str
) -> None:
    refused = client.post(ACT, data={"target": target}, headers={"origin": BASE})
    assert refused.status_code == 409
    assert told in refused.text
    assert queued(judged) == []
    unknown = client.post("/experiments/E-0099/promote", data={"target": THERE}, headers={"origin": BASE})
    assert unknown.status_code == 409


def test_the_pages_of_both_tell_what_was_found(client: TestClient, judged: Judged) -> None:
    from tests.integration.campaign.test_promoting import NO_KERNEL, nothing, run_by_hand

    run_by_hand(judged.database, judged.promote(), nothing, NO_KERNEL)
    judged.conclude()
    for page in ("/experiments/E-0002", "/experiments/E-0003", "/hypotheses/H-001", "/knowledge/F-001"):
        assert "contradicts" in client.get(page).text, page
    assert "autoinfer promote E-0002 --target cuda:3" in client.get("/experiments/E-0003").text
