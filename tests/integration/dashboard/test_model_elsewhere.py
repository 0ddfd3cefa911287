"""Pages and tools of a campaign whose model is not on this machine: what needs the model's shape says so, and
all else is told."""

from __future__ import annotations

import asyncio
import re
from html import unescape
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from configs.settings import Settings
from dashboard.app import create_app
from db.session import open_database
from tests.history.large_history import large_history
from tests.history.large_story import Size
from tests.history.model_elsewhere import FOLDER, move_model_away
from tests.integration.mcp.calling import Told, caller, in_process
from tests.new_database import database_url

WHY = (
    f"The campaign's model is not on this machine ({FOLDER} has no config.json), and what is legal and what "
    "is expected of a change can't be computed without its shape."
)
WHAT_TO_DO = "Put the model's folder back in its place, or ask on the machine where the campaign ran."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("elsewhere")
    database = large_history(found, Size(experiments=24, events=60))
    move_model_away(database)
    database.close()
    return found


@pytest.fixture(scope="module")
def client(folder: Path) -> TestClient:
    app = create_app(Settings(data_dir=folder), open_database(database_url(folder)))
    return TestClient(app, base_url="http://127.0.0.1", follow_redirects=False)


def words(page: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())


def test_what_if_tells_who_would_leave_and_be_best_and_why_not_where_the_others_go(
    client: TestClient,
) -> None:
    queue = [each["id"] for each in client.get("/queue.json").json()["board"]["rows"]["items"]]
    shown = client.get("/queue/what-if.json").json()
    assert shown["unranked"] == f"{WHY} {WHAT_TO_DO}"
    assert shown["taken"]["id"] == queue[0]
    assert [each["id"] for each in shown["choices"]] == queue[: len(shown["choices"])]
    supported, refuted, infeasible = shown["consequences"]
    assert supported["leave"]
    assert [each["moved"] for each in shown["consequences"]] == [None] * 3
    assert not any(each["shifts"] or each["next"] for each in shown["consequences"])
    assert not any(each["is_best"] for each in (refuted, infeasible))
    assert set(refuted["leave"]) <= set(supported["leave"])
    page = words(client.get("/queue/what-if").text)
    assert f"Where the others would go can't be told here. {WHY} {WHAT_TO_DO}" in page
    assert f"{len(supported['leave'])} would leave the queue, because they build on" in page
    assert "would change its place" not in page
    assert client.get("/queue/what-if?hypothesis=H-999").status_code == 404


def test_the_form_says_why_nothing_can_be_enqueued_from_here_and_shows_no_knob(client: TestClient) -> None:
    answer = client.get("/enqueue")
    assert answer.status_code == 200
    assert f"Nothing can be enqueued for C-1 from here. {WHY} {WHAT_TO_DO}" in words(answer.text)
    assert "<select" not in answer.text.partition('id="view"')[2]
    assert client.get("/enqueue.json").json()["knobs"] == []
    sent = client.post("/enqueue", data={"claim": "A claim.", "set": "serving.threads=1"}, headers=ORIGIN)
    assert WHY in words(sent.text)


ORIGIN = {"origin": "http://127.0.0.1"}


def test_a_coding_agent_is_told_the_same(folder: Path) -> None:
    async def asked() -> tuple[Told, Told]:
        async with in_process(folder) as client:
            call = caller(client)
            waits = next(e["id"] for e in (await call("queue")).structured["items"] if e["rank"] == 1)
            return await call("what_if", hypothesis=waits), await call("space")

    decided, space = asyncio.run(asked())
    assert decided.structured["unranked"] == {"quoted": f"{WHY} {WHAT_TO_DO}"}
    assert decided.structured["consequences"][0]["leave"]
    assert decided.structured["consequences"][0]["moved"] is None
    assert space.refused
    assert WHY in space.text
