"""What the running log says of the baseline's profile goes by the time that the campaign is after."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import select
from starlette.testclient import TestClient

from configs.settings import Settings
from dashboard.app import create_app
from db.event_kinds import EventKind
from db.events import of_kind
from db.models import Event
from db.models.base import JsonObject
from tests.integration.campaign.test_first_token_floor import FAILED, RATES, begun, lone

STEP = "A decode step of 0.60 ms: lm_head 100 %"
PROMPT = (
    "To the first token of a lone prompt of 512 tokens 15.0 ms, of which no kernel runs in 80 %; its floor "
    "by physics is 2.00 ms"
)
NO_PROMPT = "A lone prompt was not profiled: The profiler recorded no whole prompt"


def told(folder: Path, detail: JsonObject, metric: str) -> list[str]:
    """The lines that the log has of it."""
    database = begun(folder, detail, metric)
    with database.read() as session:
        lines = list(session.scalars(select(Event.text).where(of_kind(EventKind.CAMPAIGN_PROFILED, 1))))
    database.close()
    return lines


@pytest.mark.parametrize(
    ("metric", "detail", "line"),
    [
        ("ttft_ms", lone(12.0), PROMPT),
        ("ttft_ms", {"prompt": {**lone(12.0)["prompt"], "operations_per_s": None}}, PROMPT.split(";")[0]),
        ("ttft_ms", FAILED, f"{STEP}. {NO_PROMPT}"),
        ("ttft_ms", RATES, STEP),
        ("tpot_ms", lone(12.0), f"{STEP}. {PROMPT}"),
        ("tpot_ms", FAILED, STEP),
    ],
    ids=["first token", "no floor", "prompt failed", "a step's alone", "a token", "a token, prompt failed"],
)
def test_a_profile_is_told_by_the_time_that_the_campaign_is_after(
    tmp_path: Path, metric: str, detail: JsonObject, line: str
) -> None:
    assert told(tmp_path, detail, metric) == [line]


def test_nothing_is_told_where_nothing_was_profiled(tmp_path: Path) -> None:
    assert told(tmp_path, {"parts": []}, "ttft_ms") == []


def test_the_log_on_the_dashboard_has_that_line(tmp_path: Path) -> None:
    database = begun(tmp_path, lone(12.0))
    with TestClient(create_app(Settings(data_dir=tmp_path), database), base_url="http://127.0.0.1") as client:
        lines = client.get("/log.json").json()["events"]
        now = client.get("/").text
    database.close()
    assert [each["text"] for each in lines if each["kind"] == "campaign.profiled"] == [PROMPT]
    assert "of which no kernel runs in 80" in now
    assert "A decode step of" not in now
