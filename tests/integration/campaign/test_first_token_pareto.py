"""Latency against quality of a campaign that is after the time to the first token of one request at once: the
floor of the baseline's lone prompt is drawn, and none where it is not known."""

from __future__ import annotations

from html import unescape
from pathlib import Path

import pytest
from sqlalchemy import update

from configs.campaign import CHECKPOINT
from dashboard.page import Request
from dashboard.pages.pareto import PAGE, LatencyMetric, ParetoFilters, ParetoShown
from dashboard.report.drawings import pareto as drawn
from db.models import Campaign
from db.models.base import JsonObject
from db.session import Database
from knowledge.queries.pareto import pareto
from knowledge.queries.present.now_floor import FloorView, PromptFloorView
from tests.integration.campaign.test_another_objective import FIRST, step
from tests.integration.campaign.test_first_token_floor import FAILED, RATES, begun, lone


def measured(folder: Path, detail: JsonObject | None) -> Database:
    """A baseline with this profile and one change that is better; its weights are no more called made up."""
    database = begun(folder, detail)
    step(database, 1, FIRST, {}, tpot=0.95)
    with database.write() as session:
        campaign = session.get_one(Campaign, 1)
        campaign.spec = {**campaign.spec, "weights": CHECKPOINT}
    return database


def shown(database: Database, metric: LatencyMetric | None = None) -> tuple[ParetoShown, str]:
    request = Request({}, ParetoFilters(metric=metric))
    with database.read() as session:
        view = PAGE.read(session, request, None)  # type: ignore[arg-type]
    return view, unescape(PAGE.live(view, request))


def test_the_floor_of_a_lone_prompt_is_drawn_and_told(tmp_path: Path) -> None:
    database = measured(tmp_path, lone(12.0))
    view, page = shown(database)
    with database.read() as session:
        report = drawn(pareto(session, 1))
    database.close()
    assert isinstance(view.floor, PromptFloorView)
    assert view.plot is not None
    assert view.plot.floor is not None
    assert view.plot.floor.label == "floor 2.00\u202fms"
    assert 0 < view.plot.floor.place < min(mark.x for mark in view.plot.marks)
    assert 'class="floorl"' in page
    assert (
        "By physics the baseline takes at least 2.00\u202fms to the first token of a lone prompt: that is "
        "512 tokens at 1,000\u202fTFLOP/s and 4,000\u202fGB/s, measured on this target."
    ) in page
    assert "a step" not in page
    assert report is not None
    assert "floor 2.00\u202fms" in report


def test_the_floor_goes_by_the_time_that_is_shown(tmp_path: Path) -> None:
    database = measured(tmp_path, lone(12.0))
    step_view, step_page = shown(database, LatencyMetric.TPOT)
    whole_view, whole_page = shown(database, LatencyMetric.ITL)
    database.close()
    assert isinstance(step_view.floor, FloorView)
    assert "a step at the 4,000\u202fGB/s" in step_page
    assert "lone prompt" not in step_page
    assert whole_view.floor is None
    assert "By physics" not in whole_page


@pytest.mark.parametrize(
    "detail",
    [None, RATES, FAILED, {"prompt": lone(12.0)["prompt"]}],
    ids=["no profile", "a step's alone", "prompt failed", "no bandwidth"],
)
def test_where_it_is_not_known_none_is_drawn(tmp_path: Path, detail: JsonObject | None) -> None:
    database = measured(tmp_path, detail)
    view, page = shown(database)
    database.close()
    assert view.front, "the configurations stand all the same"
    assert view.floor is None
    assert "floorl" not in page
    assert "By physics" not in page


def test_of_several_requests_at_once_none_is_drawn(tmp_path: Path) -> None:
    database = measured(tmp_path, lone(12.0))
    with database.write() as session:
        session.execute(update(Campaign).values(objective={"metric": "ttft_ms", "concurrency": 8}))
    view, _ = shown(database)
    database.close()
    assert view.front
    assert view.floor is None
