"""What has no time of its own is told as the least that it took, wherever a page tells costs."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

from starlette.testclient import TestClient

from configs.settings import Settings
from dashboard.app import create_app
from dashboard.rendering.figures import NARROW
from db import events, queue, workers
from db.event_kinds import EventKind
from db.models import Campaign, Event, Job, Worker
from tests.history.campaign_history import History, a_full_history

WORKER, DEVICE = "desk/cuda:1#7", "desk/cuda:1"


def heard_of(history: History, seconds: float) -> None:
    """Let a worker hold the one test that has not ended, which was heard of last after so many seconds."""
    with history.database.write() as session:
        campaign = session.get_one(Campaign, history.campaign_id)
        campaign.budget = {"wall_s": 600.0, "spent_s": 100.0}
        job_id = queue.enqueue(session, "test", {}, campaign_id=campaign.id, experiment_id=5)
        assert queue.claim_one(session, job_id, WORKER, DEVICE, 60.0) is not None
        claimed = events.append(session, EventKind.JOB_CLAIMED, "Taken.", "E-0005", campaign.id)
        worker_id = workers.register(session, WORKER, "desk", 7, "cuda:1")
    with history.database.write() as session:
        began = session.get_one(Job, job_id).started_at
        assert began is not None
        session.get_one(Event, claimed).at = began
        session.get_one(Worker, worker_id).heartbeat_at = began + timedelta(seconds=seconds)


def test_every_page_of_costs_tells_the_least_of_what_has_not_ended(tmp_path: Path) -> None:
    history = a_full_history(tmp_path)
    heard_of(history, 72)
    asked = TestClient(create_app(Settings(data_dir=tmp_path), history.database), base_url="http://127.0.0.1")
    least = f"1 that has not ended, of at least 1{NARROW}min 12{NARROW}s"
    for page in ("/", "/costs", "/campaigns/C-1"):
        assert least in re.sub(r"<[^>]+>", "", asked.get(page).text), page
    report = asked.get("/campaigns/C-1/report.md").text
    assert "1 experiment that has not ended, of at least 1 min 12 s" in report
    assert asked.get("/costs.json").json()["untimed"]["unfinished_s"] == 72.0
    tables = asked.get("/costs").text.split('<table class="fr co-t">')[1:]
    assert [each.partition("</table>")[0].count(", 1 not ended<") for each in tables] == [1] * 5
    history.close()
