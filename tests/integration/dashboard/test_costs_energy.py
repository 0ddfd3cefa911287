"""The energy of a campaign's cards, wherever its costs are told."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import select, update
from starlette.testclient import TestClient

from configs.settings import Settings
from dashboard.app import create_app
from dashboard.rendering.figures import NARROW
from db import queue
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Campaign, Event, Experiment, Job
from db.states import JobState
from experiments.telemetry.keeping import keep
from experiments.telemetry.means import WINDOW_S, DeviceMean
from knowledge.queries.campaigns import campaign_detail
from knowledge.queries.facts import campaign_facts
from knowledge.queries.spent.energy import energy
from knowledge.telling.summary import summarize
from tests.history.campaign_history import History, a_full_history

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


def ran(history: History, device: str, seconds: float, experiment_id: int | None = None) -> None:
    """A job of the campaign that began at noon on a device, and ended."""
    with history.database.write() as session:
        job_id = queue.enqueue(
            session, "test", {}, campaign_id=history.campaign_id, experiment_id=experiment_id
        )
        assert queue.claim_one(session, job_id, f"{device}#7", device, 60.0) is not None
        session.execute(
            update(Job)
            .where(Job.id == job_id)
            .values(state=JobState.DONE, started_at=NOON, finished_at=NOON + timedelta(seconds=seconds))
        )


def drew(history: History, device: str, *watts: float | None, samples: int = WINDOW_S) -> None:
    """Means of a card's power, one after the other from noon on, each of so many readings."""
    with history.database.write() as session:
        keep(
            session,
            [
                DeviceMean(
                    host="desk",
                    device=device,
                    model="NVIDIA H200",
                    started_at=NOON + timedelta(seconds=WINDOW_S * place),
                    samples=samples,
                    utilization_percent=None,
                    memory_used_bytes=None,
                    power_w=power_w,
                    temperature_c=None,
                    clock_mhz=None,
                    throttled_share=None,
                )
                for place, power_w in enumerate(watts)
            ],
        )


@pytest.fixture
def full(tmp_path: Path) -> Iterator[History]:
    history = a_full_history(tmp_path)
    with history.database.write() as session:
        campaign = session.get_one(Campaign, history.campaign_id)
        campaign.budget = {"wall_s": 600.0, "spent_s": 100.0}
    yield history
    history.close()


def lines_of(history: History) -> tuple[str, ...]:
    with history.database.read() as session:
        return summarize(campaign_facts(session, history.campaign_id)).spent.lines


def text_of(asked: TestClient, page: str) -> str:
    return re.sub(r"<[^>]+>", "", asked.get(page).text)


def asked_of(history: History, folder: Path) -> TestClient:
    return TestClient(create_app(Settings(data_dir=folder), history.database), base_url="http://127.0.0.1")


def test_every_page_of_costs_tells_what_the_cards_took(full: History, tmp_path: Path) -> None:
    for number, watts in enumerate([(600.0, 600.0), (300.0, 300.0)]):
        ran(full, f"desk/cuda:{number}", 600)
        drew(full, f"cuda:{number}", *watts)
    drew(full, "cuda:7", 700.0)  # nothing of the campaign ran there
    told = "The cards took about 0.15 kWh while experiments ran"
    assert f"{told}." in lines_of(full)
    asked = asked_of(full, tmp_path)
    for page in ("/", "/costs", "/costs?campaign=C-1", "/campaigns/C-1"):
        assert told.replace("0.15 ", f"0.15{NARROW}") in text_of(asked, page), page
    report = asked.get("/campaigns/C-1/report.md").text
    assert f"{told}. Energy: the whole card's" in report
    assert "| desk/cuda:1 | 0.050 kWh | 300 W |" in report


def test_it_opens_down_to_the_means_that_it_is_made_of(full: History, tmp_path: Path) -> None:
    ran(full, "desk/cuda:0", 500)
    drew(full, "cuda:0", 400.0, 200.0)
    found = asked_of(full, tmp_path).get("/costs.json?campaign=C-1").json()["energy"]
    [card] = found["devices"]
    assert [(each["power_w"], each["seconds"]) for each in card["windows"]] == [(400.0, 300), (200.0, 200)]
    assert found["energy_wh"] == pytest.approx(
        sum(each["power_w"] * each["seconds"] for each in card["windows"]) / 3600
    )
    page = text_of(asked_of(full, tmp_path), "/costs?campaign=C-1")
    assert "What desk/cuda:0 drew, in means of five minutes" in page
    assert f"400{NARROW}W" in page


def test_what_was_not_read_is_not_made_up_and_said(full: History, tmp_path: Path) -> None:
    ran(full, "desk/cuda:0", 900)
    drew(full, "cuda:0", 720.0)
    told = "The card took about 0.060 kWh while experiments ran"
    assert lines_of(full)[-1] == (f"{told}, counted for the 33 % of that time in which its power was read.")


def test_readings_further_apart_count_whole_while_the_host_s_processors_are_measured(full: History) -> None:
    ran(full, "desk/cuda:0", 600)
    drew(full, "cuda:0", 720.0, 720.0, samples=WINDOW_S // 5)
    assert "counted for the 20 % of that time" in lines_of(full)[-1]
    ran(full, "elsewhere/cpu", 600)
    assert "counted for the 20 % of that time" in lines_of(full)[-1]
    ran(full, "desk/cpu", 600)
    assert lines_of(full)[-1] == "The card took about 0.12 kWh while experiments ran."


@pytest.mark.parametrize("state", [JobState.QUEUED, JobState.RUNNING])
def test_a_job_on_processors_that_broke_off_slows_no_readings_after_its_lease(
    full: History, state: JobState
) -> None:
    """Such as a run that was killed a week before: it waits, or nobody found out, and has no end."""
    ran(full, "desk/cuda:0", 600)
    drew(full, "cuda:0", 720.0, 720.0, samples=WINDOW_S // 5)
    week_ago = NOON - timedelta(days=7)
    left = {"state": state, "owner": None, "lease_expires_at": None}
    if state is JobState.RUNNING:
        left = {"state": state, "lease_expires_at": week_ago + timedelta(seconds=60)}
    with full.database.write() as session:
        job_id = queue.enqueue(session, "test", {}, campaign_id=full.campaign_id)
        assert queue.claim_one(session, job_id, "desk/cpu#7", "desk/cpu", 60.0) is not None
        session.execute(update(Job).where(Job.id == job_id).values(started_at=week_ago, **left))
    assert "counted for the 20 % of that time" in lines_of(full)[-1]


def test_a_job_on_processors_that_has_not_ended_slows_readings_up_to_its_last_sign(full: History) -> None:
    ran(full, "desk/cuda:0", 600)
    drew(full, "cuda:0", 720.0, 720.0, samples=WINDOW_S // 5)
    with full.database.write() as session:
        experiment_id = session.scalars(select(Experiment.id)).all()[0]
        job_id = queue.enqueue(session, "test", {}, experiment_id=experiment_id)
        assert queue.claim_one(session, job_id, "desk/cpu#7", "desk/cpu", 60.0) is not None
        session.execute(update(Job).where(Job.id == job_id).values(started_at=NOON, state=JobState.QUEUED))
    assert "counted for the 20 % of that time" in lines_of(full)[-1]
    with full.database.write() as session:
        heard = NOON + timedelta(seconds=600)
        label = format_label(Noun.EXPERIMENT, experiment_id)
        session.add(Event(at=heard, kind=EventKind.STAGE_FINISHED, subject=label, text="A stage ended."))
    assert lines_of(full)[-1] == "The card took about 0.12 kWh while experiments ran."


def test_a_card_whose_power_nobody_read_has_no_energy_rather_than_none(full: History, tmp_path: Path) -> None:
    ran(full, "desk/cuda:0", 900)
    drew(full, "cuda:0", None)
    unknown = (
        "How much energy the card took is not known: no reading of power was kept while experiments ran; "
        "autoinfer devices, run where the card is, tells whether its driver reports power"
    )
    assert lines_of(full)[-1] == f"{unknown}."
    asked = asked_of(full, tmp_path)
    assert unknown in text_of(asked, "/costs")
    assert f"{unknown}." in asked.get("/campaigns/C-1/report.md").text
    assert "kWh" not in "".join(text_of(asked, page) for page in ("/", "/costs", "/campaigns/C-1"))


def test_nothing_is_said_of_a_campaign_on_processors(full: History, tmp_path: Path) -> None:
    before = lines_of(full)
    ran(full, "desk/cpu", 900)
    drew(full, "cpu", 80.0)
    assert lines_of(full) == before
    assert 'id="co-energy"' not in asked_of(full, tmp_path).get("/costs").text
    with full.database.read() as session:
        assert energy(session, full.campaign_id) is None
        assert campaign_detail(session, full.campaign_id).spent.energy is None
