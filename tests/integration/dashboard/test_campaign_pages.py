"""The pages of campaigns, costs and settings, with their twins."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from markupsafe import escape
from sqlalchemy import inspect, update
from starlette.testclient import TestClient

from agent.campaign.beginning.create import create_campaign
from agent.plan.ground import Ground
from configs.campaign import load_campaign
from configs.settings import Settings
from dashboard import tested
from dashboard.app import create_app
from dashboard.pages import campaign
from dashboard.rendering.figures import NARROW
from db import campaign_lease, events
from db.event_kinds import EventKind
from db.models import Campaign, Hypothesis, Verdict
from db.states import VerdictOutcome
from knowledge.queries.campaigns import campaign_detail
from knowledge.queries.claims.discovery import DiscoveryView, discovery_sentence, outside_sentence
from tests.history.asking_history import an_asking_history
from tests.history.campaign_history import History, a_full_history
from tests.new_database import new_database

BEST = {"experiment": "E-0001", "speedup": 1.111, "speedup_interval": [1.087, 1.136], "tpot_ms": 9.0}
PASSWORD = "hunter2"


def client(folder: Path, history: History) -> TestClient:
    return TestClient(create_app(Settings(data_dir=folder), history.database), base_url="http://127.0.0.1")


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder = tmp_path_factory.mktemp("full")
    history = a_full_history(folder)
    with history.database.write() as session:
        events.append(
            session,
            EventKind.CAMPAIGN_BEST,
            "The best is now 1.111× as fast.",
            subject="E-0001",
            campaign_id=1,
            data=BEST,
        )
        details = {"details": {"metric": "tpot_ms", "planned_s": 100.0, "spent_s": 60.0, "by_clock": True}}
        session.execute(update(Verdict).where(Verdict.id == 1).values(judge=details))
        session.execute(
            update(Hypothesis).where(Hypothesis.id == 1).values(score={"cost_s": 50.0, "most_s": 90.0})
        )
    yield client(folder, history)
    history.close()


@pytest.fixture
def older(tmp_path: Path) -> Iterator[TestClient]:
    """A verdict from before times were by the clock: launches side by side count each."""
    history = a_full_history(tmp_path)
    with history.database.write() as session:
        details = {"details": {"metric": "tpot_ms", "planned_s": 1400.0, "spent_s": 497.0}}
        session.execute(update(Verdict).where(Verdict.id == 1).values(judge=details))
    yield client(tmp_path, history)
    history.close()


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder: Path = tmp_path_factory.mktemp("empty")
    database = new_database(folder)
    yield TestClient(create_app(Settings(data_dir=folder), database), base_url="http://127.0.0.1")
    database.close()


def test_a_campaign_has_its_best_with_its_interval_and_what_it_settled(full: TestClient) -> None:
    row = full.get("/campaigns.json").json()["items"][0]
    assert (row["best"]["speedup"], row["best"]["low"], row["best"]["high"]) == (1.111, 1.087, 1.136)
    for path in ("/campaigns", "/campaigns/C-1"):
        page = full.get(path).text
        assert "1.11" in page
        assert "[1.09,\u00a01.14]" in page
        assert "/hypotheses?campaign=C-1&amp;state=ruled-out" in page
    assert "1 hypothesis is under test; 2 hypotheses in the queue." in page


def test_a_campaign_says_which_gpu_others_use_or_used_when_it_was_interrupted(tmp_path: Path) -> None:
    history = History(tmp_path)
    page = client(tmp_path, history)
    with history.database.write() as session:
        found = session.get_one(Campaign, history.campaign_id)
        found.spec = {**found.spec, "target": "cuda:1"}
        kind, data = EventKind.CAMPAIGN_DEVICE_RESTS, {"device": "cuda:1", "in_a_row": 1}
        events.append(session, kind, "A notebook is there", "C-1", history.campaign_id, data)
    told = page.get("/campaigns/C-1").text
    assert "cuda:1 rested when it was interrupted, because others used it." in told
    assert "Told then" not in told
    with history.database.write() as session:
        assert campaign_lease.take(session, history.campaign_id, "elsewhere", 60.0)
        events.append(session, EventKind.CAMPAIGN_RESUMED, "It goes on.", "C-1", history.campaign_id)
    told = page.get("/campaigns/C-1").text
    assert "because others use it. Told then: A notebook is there.</p>" in told
    history.close()


def test_tests_are_counted_again_only_where_there_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = a_full_history(tmp_path)
    page = client(tmp_path, history)
    counted: list[int] = []
    tallies = tested.tallies_of
    monkeypatch.setattr(tested, "tallies_of", lambda *given: counted.append(1) or tallies(*given))

    def discovery() -> object:
        return page.get("/campaigns/C-1.json").json()["campaign"]["discovery"]

    before = discovery()
    with history.database.write() as session:
        events.append(session, EventKind.NOTE_ADDED, "nothing that counts", campaign_id=1)
    assert (discovery(), len(counted)) == (before, 1)
    history.judge(7, VerdictOutcome.REFUTED, effect=(0.2, 0.1, 0.3))
    after = discovery()
    with history.database.read() as session:
        assert after == campaign_detail(session, 1).model_dump(mode="json")["discovery"]
    assert (after != before, len(counted)) == (True, 2)
    history.close()


def test_a_large_campaign_tells_its_story_where_it_is_asked_for(
    full: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert full.get("/campaigns/C-1.json").json()["story"] is not None
    monkeypatch.setattr(campaign, "MOST_TOLD", 0)
    history = a_full_history(tmp_path)
    large = client(tmp_path, history)
    unasked = large.get("/campaigns/C-1.json").json()
    assert (unasked["story"], unasked["verification"]) == (None, None)
    assert 'href="/campaigns/C-1?story=true#ca-s">tell their story' in large.get("/campaigns/C-1").text
    assert large.get("/campaigns/C-1.json?story=true").json()["story"]["chapters"]
    assert "How it began" in large.get("/campaigns/C-1?story=true").text
    history.close()


def test_how_many_may_be_false_is_told_on_the_page_as_in_the_summary(full: TestClient) -> None:
    found = DiscoveryView.model_validate(full.get("/campaigns/C-1.json").json()["campaign"]["discovery"])
    said = [each for each in (discovery_sentence(found), outside_sentence(found)) if each]
    page = full.get("/campaigns/C-1").text.replace(NARROW, " ")
    believed = page.partition('id="ca-discovery"')[2].partition("</section>")[0]
    assert said
    for each in said:
        assert each[1:] in believed


def test_costs_are_summed_every_way_and_no_price_is_invented(full: TestClient) -> None:
    found = full.get("/costs.json").json()
    assert (found["total"]["experiments"], found["total"]["spent_s"]) == (5, 4 * 42.0)  # one still runs
    assert found["total"]["unfinished"] == 1
    assert (found["timed"], found["saved_s"]) == (1, 40.0)
    assert (found["total"]["estimated"], found["total"]["estimated_s"]) == (1, 50.0)
    total = found["total"]
    assert (total["quoted"], total["quoted_s"], total["quoted_spent_s"]) == (1, 90.0, 42.0)
    for by in ("campaigns", "targets", "days", "outcomes", "levers"):
        assert sum(row["quoted_s"] for row in found[by]) == total["quoted_s"]
        assert sum(row["spent_s"] for row in found[by]) == found["total"]["spent_s"]
        assert sum(row["experiments"] for row in found[by]) == found["total"]["experiments"]
    assert {row["name"] for row in found["outcomes"]} >= {"supported", "infeasible", "no verdict"}
    page = full.get("/costs").text
    assert str(escape(found["basis"])) in page
    assert "of experiments, no money." in page
    assert "US dollars" not in page
    assert "Stopping early saved 40" in page
    assert "by the clock for the whole plans of 1 timed experiment" in page
    assert len(full.get("/costs.csv").text.splitlines()) == 1 + sum(
        len(found[by]) for by in ("campaigns", "targets", "days", "outcomes", "levers")
    )


def test_launch_time_of_older_verdicts_stands_in_no_headline_of_the_clock(older: TestClient) -> None:
    page = older.get("/costs").text
    assert older.get("/costs.json").json()["saved_by_clock"] is False
    assert "Stopping early saved" not in page
    assert "of launches, those side by side counted each for the whole plans of 1 timed experiment" in page
    assert "Stopping early has saved" not in older.get("/").text
    assert "launches, those side by side counted each, 8" in older.get("/experiments/E-0001").text


def test_the_front_of_another_concurrency_is_chosen_by_it(tmp_path: Path) -> None:
    history = a_full_history(tmp_path)
    with history.database.write() as session:
        session.get_one(Campaign, 1).objective = {"metric": "tpot_ms", "concurrency": 1}
        first = session.get_one(Campaign, 1)
        kept = {each.key: getattr(first, each.key) for each in inspect(Campaign).column_attrs}
        session.add(Campaign(**{**kept, "id": 2, "objective": {"metric": "tpot_ms", "concurrency": 8}}))
    app = client(tmp_path, history)
    try:
        shown = {at: app.get(f"/pareto.json?concurrency={at}").json() for at in (1, 8)}
        assert {at: each["campaign"] for at, each in shown.items()} == {1: "C-1", 8: "C-2"}
        assert shown[1]["concurrencies"] == [1, 8]
        assert "<option selected>8</option>" in app.get("/pareto").text
        refused = app.get("/pareto.json?concurrency=4")
        assert refused.status_code == 404
        assert refused.json()["error"] == "No campaign is measured at concurrency 4; there is 1, 8."
    finally:
        history.close()


def test_what_a_campaign_asks_is_answered_with_its_contrasts(tmp_path: Path) -> None:
    asking = an_asking_history(tmp_path)
    app = create_app(Settings(data_dir=tmp_path), asking.database)
    page = TestClient(app, base_url="http://127.0.0.1").get("/campaigns/C-1").text
    asking.close()
    assert "Does g128 lose against g32?" in page
    assert "<b>Answer.</b>" in page
    assert "It ended because the budget of 1\u202fh is spent." in page


def test_a_model_of_the_hub_shows_its_commit_and_a_gpu_its_driver(tmp_path: Path) -> None:
    """A campaign as it is stored; nothing of it was measured."""
    database = new_database(tmp_path)
    hub = {"repo": "us/small", "revision": "main", "commit": "c" * 40}
    gpu = {"name": "Invented 9000", "memory_bytes": 24 * 10**9, "compute_capability": "9.0"}
    ground = Ground(
        checkpoint=tmp_path,
        fingerprint="f" * 64,
        target_key="cuda:Invented 9000:24 GB",
        cores=2,
        model_layers=("linear_attention",),
        hub=hub,
        gpu={**gpu, "driver": "580.10", "cuda_driver": 13000},
    )
    with database.write() as session:
        create_campaign(session, load_campaign("default", {"model": "us/small"}), ground)
    app = create_app(Settings(data_dir=tmp_path), database)
    page = TestClient(app, base_url="http://127.0.0.1").get("/campaigns/C-1").text
    database.close()
    for part in ("us/small", "c" * 12, "580.10", "cuda:Invented 9000:24 GB"):
        assert part in page


def test_settings_tell_their_origin_and_no_password(tmp_path: Path) -> None:
    database = new_database(tmp_path)
    url = f"postgresql://me:{PASSWORD}@somewhere/autoinfer"
    app = create_app(Settings(data_dir=tmp_path, database_url=url), database)
    browser = TestClient(app, base_url="http://127.0.0.1")
    answers = [browser.get(f"/settings{kind}").text for kind in ("", ".json", ".csv")]
    database.close()
    for answer in answers:
        assert PASSWORD not in answer
        assert "me:***@somewhere" in answer
        assert "lease_s" in answer
    switch = answers[0].partition('id="setting-run_generated_code"')[2].partition("</tr>")[0]
    assert "<code>off</code>" in switch
    assert "run_generated_code,False," in answers[2]


@pytest.mark.parametrize("path", ["/campaigns/C-9", "/campaigns/H-001", "/costs?campaign=C-9"])
def test_an_unknown_label_is_told_in_a_sentence(full: TestClient, path: str) -> None:
    answer = full.get(path)
    assert answer.status_code == 404
    assert 'class="sentence"' in answer.text


def test_an_empty_database_says_what_to_do_next(empty: TestClient) -> None:
    for path in ("/campaigns", "/costs"):
        assert "autoinfer run" in empty.get(path).text
    assert empty.get("/costs.json").json()["total"]["spent_s"] == 0
    assert "None yet" in empty.get("/settings").text


def test_the_report_of_a_campaign_is_served_in_its_forms_under_a_policy_of_its_own(full: TestClient) -> None:
    assert '"/campaigns/C-1/report.html"' in full.get("/campaigns/C-1").text
    page = full.get("/campaigns/C-1/report.html")
    assert page.status_code == 200
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "style-src 'sha256-" in policy
    assert '<h2><span class="no">1</span> Question</h2>' in page.text
    assert full.get("/campaigns/c-1/report.md").text.startswith("# How much faster does ")
    assert full.get("/campaigns/C-1/report.json").json()["format"] == "autoinfer-report-1"
    for form in ("html", "md", "json"):
        assert full.get(f"/campaigns/C-9/report.{form}").status_code == 404
