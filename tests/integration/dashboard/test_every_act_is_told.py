"""Whatever is written from a page is told in the log: every route that is no reading is walked."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from starlette.testclient import TestClient

from configs.settings import Settings
from dashboard.app import create_app
from dashboard.web.security import SAFE_METHODS
from db.models import Hypothesis, JobQuote
from tests.history.awaiting import let_wait
from tests.history.campaign_history import History
from tests.integration.dashboard.test_enqueue_page import LEGAL
from tests.simulated.queueing import enqueue_job
from tests.simulated.specs import a_test_job

BASE = "http://127.0.0.1"

Act = tuple[str, dict[str, str]]

BEFORE: dict[str, tuple[Act, ...]] = {
    "/queue/unpin": (("/queue/pin", {"hypothesis": "H-003"}),),
    "/queue/unmove": (("/queue/move", {"hypothesis": "H-003", "to": "1"}),),
    "/queue/unapprove": (("/queue/approve", {"hypothesis": "H-001", "up_to_s": "2400.0"}),),
    "/queue/lift": (("/queue/steer", {"kind": "focus", "lever": "threads"}),),
    "/queue/unquestion": (("/queue/question", {"hypothesis": "H-003"}),),
    "/queue/resume": (("/queue/pause", {}),),
    "/knowledge/take_back": (("/knowledge/tell", {"claim": "One thread is enough"}),),
    "/costs/drop_budget": (("/costs/set_budget", {"of": "day", "usd": "3", "seen": ""}),),
}
"""What must have been done, so that there is something to undo."""

ACTS: dict[str, tuple[dict[str, str], str]] = {
    "/enqueue": ({"claim": "Four threads are faster", "set": "serving.threads=4"}, "hypothesis.proposed"),
    "/queue/pin": ({"hypothesis": "H-003"}, "directive.given"),
    "/queue/unpin": ({"hypothesis": "H-003"}, "directive.lifted"),
    "/queue/move": ({"hypothesis": "H-003", "to": "1"}, "directive.given"),
    "/queue/unmove": ({"hypothesis": "H-003"}, "directive.lifted"),
    "/queue/approve": ({"hypothesis": "H-001", "up_to_s": "2400.0"}, "directive.given"),
    "/queue/unapprove": ({"hypothesis": "H-001"}, "directive.lifted"),
    "/queue/approve_price": ({"job": "J-1", "up_to_usd": "2.00"}, "job.approved"),
    "/queue/withdraw": ({"hypothesis": "H-003", "why": "enough"}, "hypothesis.withdrawn"),
    "/queue/steer": ({"kind": "focus", "lever": "threads"}, "directive.given"),
    "/queue/lift": ({"kind": "focus", "lever": "threads"}, "directive.lifted"),
    "/queue/question": ({"hypothesis": "H-003"}, "directive.given"),
    "/queue/unquestion": ({}, "directive.lifted"),
    "/queue/pause": ({}, "campaign.paused"),
    "/queue/resume": ({}, "campaign.resumed"),
    "/queue/stop": ({"sure": "1"}, "campaign.stopped"),
    "/knowledge/tell": ({"claim": "One thread is enough", "set": "serving.threads=1"}, "finding.added"),
    "/knowledge/take_back": ({"finding": "F-001"}, "finding.changed"),
    "/costs/set_budget": ({"of": "day", "usd": "3", "seen": ""}, "budget.set"),
    "/costs/drop_budget": ({"of": "day", "seen": ""}, "budget.set"),
    "/costs/approve": ({"job": "J-1", "up_to_usd": "2.00"}, "job.approved"),
}
"""A form of every act that writes, and the event that tells of it."""

ELSEWHERE = {
    "/experiments/{label}/promote": "tests/integration/dashboard/test_confirm_on.py",
    "/costs/stop_remote": "tests/integration/dashboard/test_money_acts.py",
    "/costs/reconcile": "tests/integration/dashboard/test_money_acts.py",
}
"""Acts that need a measured campaign or a provider, and where they are walked."""


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    found = History(tmp_path)
    for rank, change in enumerate(
        ({"serving.threads": 1}, {"serving.dtype": "bfloat16"}, {"serving.compile": "default"}), start=1
    ):
        number = found.propose(change, claim=f"Claim {rank}.", rank=rank)
        with found.database.write() as session:
            session.get_one(Hypothesis, number).score = {"score": 0.001 / rank, "cost_s": 60.0}
    let_wait(found.database, 1)
    _, job_id = enqueue_job(found.database, 1, a_test_job, device_class="files:T")
    with found.database.write() as session:
        session.add(
            JobQuote(
                job_id=job_id,
                target="files:T",
                expected_s=100,
                bound_s=400,
                expected_microusd=500_000,
                bound_microusd=2_000_000,
                basis="the tests' own price",
                waits_because="It costs $2.00 at most, and above $1.00 you are asked.",
                needs_approval=True,
            )
        )
    yield found
    found.close()


@pytest.fixture
def client(history: History, tmp_path: Path) -> Iterator[TestClient]:
    app = create_app(Settings(data_dir=tmp_path), history.database)
    with patch(
        "agent.campaign.queue.enqueue.legal_of", return_value=LEGAL
    ):  # the history's checkpoint is nowhere
        yield TestClient(app, base_url=BASE, follow_redirects=False)


def send(client: TestClient, act: str, fields: dict[str, str]) -> int:
    seen = re.findall(r'name="seen" value="([\d.]+)"', client.get("/queue").text)[:1]
    form = {"campaign": "C-1", **({"seen": seen[0]} if seen else {}), **fields}
    return client.post(act, data=form, headers={"origin": BASE}).status_code


def rows(tmp_path: Path) -> tuple[list[str], list[str]]:
    """All rows but the log's, and the kinds of the log's, as the database's file has them."""
    (file,) = tmp_path.rglob("*.db")
    with sqlite3.connect(file) as raw:
        others = [line for line in raw.iterdump() if not line.startswith('INSERT INTO "event"')]
        return others, [kind for (kind,) in raw.execute("SELECT kind FROM event ORDER BY id")]


def test_every_route_that_is_no_reading_is_walked(client: TestClient) -> None:
    paths = client.app.openapi()["paths"]  # type: ignore[attr-defined]
    written = {
        path for path, methods in paths.items() for each in methods if each.upper() not in SAFE_METHODS
    }
    assert written == {*ACTS, *ELSEWHERE}


@pytest.mark.parametrize("act", ACTS)
def test_an_act_changes_what_is_stored_and_is_told_in_the_log(
    client: TestClient, tmp_path: Path, act: str
) -> None:
    for earlier, fields in BEFORE.get(act, ()):
        assert send(client, earlier, fields) in (200, 303)
    stored, told = rows(tmp_path)
    fields, kind = ACTS[act]
    assert send(client, act, fields) in (200, 303)
    now_stored, now_told = rows(tmp_path)
    assert now_stored != stored, "it wrote nothing"
    assert now_told[: len(told)] == told, "the log is only added to"
    assert kind in now_told[len(told) :]


@pytest.mark.parametrize("act", ACTS)
def test_an_act_that_is_refused_writes_nothing(client: TestClient, tmp_path: Path, act: str) -> None:
    stored = rows(tmp_path)
    assert send(client, act, {"campaign": "C-99", "hypothesis": "H-099", "sure": "1"}) == 409
    assert rows(tmp_path) == stored
