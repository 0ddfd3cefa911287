"""What pages and commands say of a test that failed while nothing drove its campaign: that, and why."""

from __future__ import annotations

from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from configs.settings import Settings
from dashboard.app import create_app
from db import queue
from db.models import Campaign, Experiment, Job
from db.states import CampaignState, ExperimentState, JobState
from tests.history.campaign_history import History
from tests.integration.cli.command import Autoinfer

WHY = "the GPU has no room for 40 GB of weights"

TOLD = f"E-0001 failed: {WHY}; what follows from that is decided when the campaign goes on"


@pytest.fixture
def failed(tmp_path: Path) -> Iterator[History]:
    """A campaign that nothing drives, whose one test has failed since."""
    history = History(tmp_path / "data")
    experiment_id = history.start_testing(history.propose({"serving.threads": 1}))
    with history.database.write() as session:
        job_id = queue.enqueue(
            session, "test", {}, campaign_id=history.campaign_id, experiment_id=experiment_id
        )
        session.get_one(Job, job_id).state = JobState.DONE
        experiment = session.get_one(Experiment, experiment_id)
        experiment.state, experiment.failure = ExperimentState.FAILED, f"{WHY}."
    yield history
    history.close()


def test_pages_tell_that_it_failed_and_why(failed: History, tmp_path: Path) -> None:
    app = create_app(Settings(data_dir=tmp_path / "data"), failed.database)
    client = TestClient(app, base_url="http://127.0.0.1")
    pages = {path: unescape(client.get(path).text) for path in ("/queue", "/hypotheses", "/hypotheses/H-001")}
    assert all("Test failed" in page for page in pages.values())
    after = TOLD.removeprefix("E-0001")  # which is a link
    assert f"{after}." in pages["/queue"]
    assert f"{after}." in pages["/hypotheses/H-001"]
    assert not any("Under test" in page for page in pages.values())


def test_commands_tell_that_it_failed_and_why(failed: History, autoinfer: Autoinfer) -> None:
    queued = autoinfer("queue").out
    assert queued.startswith("test failed  H-001")
    shown = autoinfer("show H-001").out
    assert shown.startswith("H-001  test failed  in C-1")
    assert "test failed" in autoinfer("hypotheses").out
    campaign, story = autoinfer("show C-1").out, autoinfer("story").out
    for told in (queued, shown, story):
        assert TOLD in " ".join(told.split())
    assert "1 test has ended and waits for the campaign to go on" in " ".join(story.split())
    assert "1 test failed" in campaign
    assert "testing" not in campaign


def test_the_story_of_a_campaign_that_was_ended_tells_it_too(failed: History, autoinfer: Autoinfer) -> None:
    with failed.database.write() as session:
        campaign = session.get_one(Campaign, failed.campaign_id)
        campaign.state, campaign.stopped_because = CampaignState.STOPPED, "the user stopped it"
    told = " ".join(autoinfer("story").out.split())
    assert TOLD in told
    assert "Nothing: the queue is empty" not in told
