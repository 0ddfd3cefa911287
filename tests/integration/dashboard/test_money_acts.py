"""The Costs page: budgets by form, prices approved, every run told, and the end of what is paid for."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from sqlalchemy import select
from starlette.testclient import TestClient

from configs.settings import Settings
from dashboard.actions.forms import CONTENT_TYPE, REFUSED
from dashboard.app import create_app
from db import money
from db.models import Job, JobQuote, RemoteRun
from db.states import BudgetScope, JobState, RemoteRunState
from experiments.executors.port import RunState
from tests.history.paid_history import OTHER, TARGET, PaidHistory, a_paid_history
from tests.integration.worker.processes import events_of
from tests.simulated.remote_executor import FileProvider
from tests.simulated.specs import a_test_job

BASE = "http://127.0.0.1"
FLYING = ("job3-2", "job5-1")
WHY = "The user stopped everything remote: It costs too much."


@pytest.fixture
def history(tmp_path: Path) -> Iterator[PaidHistory]:
    found = a_paid_history(tmp_path)
    yield found
    found.close()


@pytest.fixture
def provider(tmp_path: Path, history: PaidHistory) -> FileProvider:
    """What the provider knows: the runs in flight."""
    made = FileProvider(tmp_path / "jobs", target=TARGET)
    for key in FLYING:
        made.submit(key, a_test_job())
    return made


@pytest.fixture
def client(tmp_path: Path, history: PaidHistory, provider: FileProvider) -> TestClient:
    def executor(name: str, target: str | None) -> FileProvider:
        return provider

    app = create_app(Settings(data_dir=tmp_path), history.database, executor=executor)
    return TestClient(app, base_url=BASE, follow_redirects=False)


def send(client: TestClient, act: str, data: dict[str, object], *, origin: str = BASE) -> tuple[int, str]:
    headers = {"origin": origin, "hx-request": "true", "content-type": CONTENT_TYPE}
    answer = client.post(f"/costs/{act}", data=data, headers=headers)
    return answer.status_code, " ".join(unescape(re.sub(r"<[^>]+>", " ", answer.text)).split())


def standing(history: PaidHistory, name: str) -> money.BudgetStanding | None:
    with history.database.read() as session:
        return next((each for each in money.budgets(session) if each.name == name), None)


def version(history: PaidHistory, name: str) -> str:
    found = standing(history, name)
    assert found is not None
    return found.version


def test_a_budget_is_set_changed_and_removed_by_form_and_each_is_told(
    client: TestClient, history: PaidHistory
) -> None:
    status, said = send(client, "set_budget", {"of": "target", "name": "modal:L4", "usd": "4.50"})
    assert (status, said) == (200, "The budget of modal:L4 is $4.50.")
    form = {"of": "target", "name": "modal:L4", "seen": version(history, "modal:L4")}
    status, said = send(client, "set_budget", {**form, "usd": "6", "approve_above": "1"})
    assert (status, said) == (200, "The budget of modal:L4 is $6.00; above $1.00 a job waits for approval.")
    form["seen"] = version(history, "modal:L4")
    assert send(client, "drop_budget", form) == (200, "The budget of modal:L4 was dropped.")
    assert standing(history, "modal:L4") is None
    assert len(events_of(history.database, "budget.set")) == 3


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ({"of": "target", "name": "modal:L4", "usd": "lots"}, "'lots' is no amount in US dollars."),
        ({"of": "target", "name": "modal:L4", "usd": "-1"}, "'-1' is no amount in US dollars."),
        ({"of": "target", "name": "cuda:0", "usd": "1"}, "'cuda:0' is no paid target."),
        ({"of": "target", "usd": "1"}, "The form does not say which target. Write one such as modal:H100!."),
        ({"of": "campaign", "name": "C-9", "usd": "1"}, "C-9 does not exist"),
        ({"of": "day", "name": "monday", "usd": "1"}, "The budget of every day has no name."),
        ({"of": "week", "usd": "1"}, "'week' has no budget."),
        ({"of": "target", "name": "modal:L4"}, "The form says nothing of usd."),
        (
            {"of": "target", "name": TARGET, "usd": "1", "seen": "1."},
            "Somebody changed this budget meanwhile",
        ),
        (
            {"of": "target", "name": "modal:L4", "usd": "1", "seen": "1."},
            "Somebody changed this budget meanwhile",
        ),
    ],
)
def test_a_budget_that_can_t_be_set_is_refused_in_a_sentence_and_nothing_is_written(
    client: TestClient, history: PaidHistory, form: dict[str, object], why: str
) -> None:
    status, said = send(client, "set_budget", form)
    assert status == REFUSED
    assert why in said
    assert events_of(history.database, "budget.set") == []


def test_a_page_of_another_site_sets_no_budget_and_ends_nothing(
    client: TestClient, provider: FileProvider
) -> None:
    for act in ("set_budget", "drop_budget", "approve", "stop_remote", "reconcile"):
        status, said = send(client, act, {"of": "day", "usd": "1", "sure": "1"}, origin="http://evil.example")
        assert (status, said.partition(",")[0]) == (403, "This was sent by a page of another site")
    assert len(provider.reconcile()) == len(FLYING)


def test_what_is_left_of_a_budget_is_a_bar_and_words(client: TestClient) -> None:
    page = client.get("/costs").text
    assert 'aria-label="$3.93 spent and $3.60 reserved of $20.00"' in page
    assert '<rect class="bud-s" width="196.5" height="8"/>' in page
    assert "<b>$12.47</b> left of $20.00" in page
    assert '<b class="bad">$2.53 over</b> the limit of $7.00' in page


def test_a_price_is_approved_on_the_page_that_tells_it(client: TestClient, history: PaidHistory) -> None:
    assert 'action="/costs/approve"' in client.get("/costs").text
    status, said = send(client, "approve", {"job": "J-6", "up_to_usd": "2.000000"})
    assert (status, said) == (200, "J-6 may be submitted when its turn comes, for $2.00 at most.")
    with history.database.read() as session:
        assert session.get_one(JobQuote, 6).approved_microusd == 2_000_000
    assert send(client, "approve", {"job": "J-7", "up_to_usd": "2"})[0] == REFUSED


def test_every_run_is_told_with_what_it_was_quoted_expected_and_cost_and_what_it_brought(
    client: TestClient,
) -> None:
    found = client.get("/costs.json").json()
    runs = {each["key"]: each for each in found["runs"]["items"]}
    assert found["runs"]["total"] == len(runs) == 6
    assert [each["key"] for each in found["runs"]["items"]][:2] == ["job5-1", "job3-2"]
    done = runs["job1-1"]
    assert (done["bound_usd"], done["expected_usd"], done["actual_usd"]) == (2.0, 0.5, 0.42)
    assert (done["source"], done["limit_s"], done["state"]) == ("the provider's bill", 1800.0, "done")
    assert done["difference_usd"] == pytest.approx(-0.08)
    assert done["gain"] == pytest.approx(0.10)
    assert done["usd_per_percent"] == pytest.approx(0.05)
    assert done["verdict"] == "supported"
    assert done["paid_per_percent"] == pytest.approx(0.42 / 12)
    refuted = runs["job2-1"]
    assert (refuted["verdict"], refuted["paid_usd"], refuted["paid_per_percent"]) == ("refuted", 0.61, None)
    assert runs["job3-1"]["state"] == "timed_out"
    assert (runs["job4-1"]["actual_usd"], runs["job4-1"]["source"]) == (None, "not told: the quote counts")
    flying = runs["job3-2"]
    assert (flying["open"], flying["attended"], runs["job5-1"]["attended"]) == (True, True, False)
    assert 0 <= flying["so_far_usd"] <= flying["bound_usd"]


def test_the_table_the_runs_and_the_sums_agree(client: TestClient) -> None:
    found = client.get("/costs.json").json()
    rows = list(csv.DictReader(io.StringIO(client.get("/costs.csv").text)))
    runs = [row for row in rows if row["by"] == "paid run"]
    assert [row["name"] for row in runs] == [each["key"] for each in found["runs"]["items"]]
    for by, sums in (("target", "targets"), ("day", "days"), ("campaign", "campaigns")):
        for group in found["money"][sums]:
            own = [each for each in found["runs"]["items"] if each[by] == group["name"]]
            assert group["runs"] == len(own)
            assert group["quoted_usd"] == pytest.approx(sum(each["bound_usd"] for each in own))
            assert group["actual_usd"] == pytest.approx(sum(each["actual_usd"] or 0 for each in own))
            told = [row for row in rows if row["by"] == f"paid {by}" and row["name"] == group["name"]]
            assert [float(row["actual_usd"]) for row in told] == [pytest.approx(group["actual_usd"])]


def test_everything_that_is_paid_for_is_ended_once_it_was_said_twice(
    client: TestClient, history: PaidHistory, provider: FileProvider
) -> None:
    page = client.get("/costs").text
    assert "at once and for good, in all campaigns" in page
    runs = re.findall(r'name="run" value="(\d+)"', page)
    assert len(runs) == len(FLYING)
    status, said = send(client, "stop_remote", {"run": runs})
    assert (status, said.partition(".")[0]) == (REFUSED, "This ends everything that is paid for")
    assert len(provider.reconcile()) == len(FLYING)
    status, said = send(client, "stop_remote", {"run": runs, "sure": "1", "why": "x" * 501})
    assert (status, said.partition(",")[0]) == (REFUSED, "The reason has 501 characters")
    assert len(provider.reconcile()) == len(FLYING)
    status, said = send(client, "stop_remote", {"run": runs, "sure": "1", "why": "It costs too much."})
    assert status == 200
    assert "J-3 on files:T has ended; it cost $0.200." in said
    assert "Cancelled before they were submitted: J-6, J-7." in said
    assert provider.reconcile() == []
    with history.database.read() as session:
        assert set(session.scalars(select(RemoteRun.state))) == {RemoteRunState.ENDED}
        assert session.get_one(Job, 6).state is JobState.CANCELLED
        assert session.get_one(Job, 6).error == WHY
    assert f"J-6 is cancelled: {WHY}" in events_of(history.database, "job.cancelled")
    assert f"J-3 is cancelled: {WHY}" in events_of(history.database, "job.cancelled")
    assert len(events_of(history.database, "job.settled")) == 2


def test_a_run_that_was_submitted_after_the_page_was_read_ends_nothing(
    client: TestClient, provider: FileProvider
) -> None:
    [first, _] = re.findall(r'name="run" value="(\d+)"', client.get("/costs").text)
    status, said = send(client, "stop_remote", {"run": [first], "sure": "1"})
    assert status == REFUSED
    assert "was submitted meanwhile. Look at what runs now, then say it again." in said
    assert len(provider.reconcile()) == len(FLYING)


def test_what_could_not_be_ended_is_told_and_stays_reserved(
    client: TestClient, history: PaidHistory, provider: FileProvider
) -> None:
    (provider.cloud / "fc-job5-1" / "refuses-to-end").touch()
    runs = re.findall(r'name="run" value="(\d+)"', client.get("/costs").text)
    status, said = send(client, "stop_remote", {"run": runs, "sure": "1"})
    assert status == 503
    assert "J-5 on files:Large was NOT ended: The provider does not end fc-job5-1." in said
    found = standing(history, OTHER)
    assert found is not None
    assert found.reserved == 2_000_000


def test_only_the_strangers_that_were_ticked_are_ended(client: TestClient, provider: FileProvider) -> None:
    assert send(client, "reconcile", {"do": "list"}) == (
        200,
        "Every run that is alive at files is known here.",
    )
    for key in ("mine", "another-database-s"):
        provider.submit(key, a_test_job())
    status, said = send(client, "reconcile", {"do": "list"})
    assert status == 200
    assert "2 runs are alive that this database does not know." in said
    status, said = send(client, "reconcile", {"do": "end", "ref": ["fc-mine", "fc-job3-2"]})
    assert status == 200
    assert "Ended: fc-mine." in said
    assert "1 run is alive that this database does not know." in said
    assert provider.poll("fc-mine").state is RunState.CANCELLED
    assert send(client, "reconcile", {"do": "end"})[0] == REFUSED
    assert sorted(provider.reconcile()) == ["fc-another-database-s", "fc-job3-2", "fc-job5-1"]


def test_a_provider_that_does_not_answer_is_told(client: TestClient, provider: FileProvider) -> None:
    (provider.cloud / "cut").touch()
    status, said = send(client, "reconcile", {"do": "list"})
    assert (status, said) == (
        503,
        "files could not be asked: The provider does not answer. It is asked again.",
    )


def test_without_a_script_an_act_leads_back_or_to_a_page_that_says_why_not(client: TestClient) -> None:
    form = {"of": "day", "usd": "3"}
    answer = client.post("/costs/set_budget", data=form, headers={"origin": BASE})
    assert (answer.status_code, answer.headers["location"]) == (303, "/costs")
    refused = client.post("/costs/set_budget", data={**form, "usd": "x"}, headers={"origin": BASE})
    assert refused.status_code == REFUSED
    assert 'href="/costs"' in refused.text


def test_every_page_says_that_something_paid_runs_and_nobody_looks_after_it(client: TestClient) -> None:
    said = "1 run on rented machines may still cost money, $2.00 at most, and no worker looks after it."
    for path in ("/", "/queue", "/experiments", "/log", "/settings", "/costs"):
        assert said in client.get(path).text, path


def test_no_page_says_so_while_a_worker_looks_after_what_runs(
    client: TestClient, history: PaidHistory
) -> None:
    with history.database.write() as session:
        session.get_one(Job, 5).lease_expires_at = session.get_one(Job, 3).lease_expires_at
    assert "no worker looks after" not in client.get("/").text


def test_a_server_that_can_t_ask_providers_tells_the_commands(tmp_path: Path, history: PaidHistory) -> None:
    client = TestClient(create_app(Settings(data_dir=tmp_path), history.database), base_url=BASE)
    page = client.get("/costs").text
    assert "autoinfer stop --remote" in page
    assert 'action="/costs/stop_remote"' not in page
    runs = ["4", "6"]
    assert send(client, "stop_remote", {"run": runs, "sure": "1"})[0] == REFUSED


def test_older_runs_are_on_pages_of_their_own(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("knowledge.queries.spent.paid_runs.MOST_RUNS", 2)
    first = client.get("/costs.json").json()["runs"]
    assert [each["key"] for each in first["items"]] == ["job5-1", "job3-2", "job4-1", "job3-1"]
    rest = client.get(f"/costs.json?before={first['older']}").json()["runs"]
    assert [each["key"] for each in rest["items"]] == ["job2-1", "job1-1"]
    assert rest["older"] is None


def test_a_day_s_budget_needs_no_name_and_is_one(client: TestClient, history: PaidHistory) -> None:
    seen = version(history, "")
    assert send(client, "set_budget", {"of": "day", "usd": "9", "seen": seen})[0] == 200
    with history.database.read() as session:
        [day] = [each for each in money.budgets(session) if each.scope is BudgetScope.DAY]
    assert day.limit == 9_000_000
