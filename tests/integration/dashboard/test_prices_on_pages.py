"""Now, Queue and the experiment's page tell what a rented job costs, and let its price be approved."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from configs.settings import Settings
from dashboard.actions.forms import REFUSED
from dashboard.app import create_app
from db import money
from db.models import Campaign, Experiment, Hypothesis, JobQuote
from db.session import Database
from db.states import BudgetScope
from tests.new_database import new_database
from tests.simulated.paid_jobs import TARGET, WHY, runs, waits
from tests.simulated.queueing import enqueue_job, start_campaign
from tests.simulated.specs import a_test_job

PAGES = ("/", "/queue")


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = new_database(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def client(tmp_path: Path, database: Database) -> TestClient:
    campaign_id = start_campaign(database)
    with database.write() as session:
        campaign = session.get_one(Campaign, campaign_id)
        campaign.spec = {**campaign.spec, "target": TARGET}
        campaign.budget = {"wall_s": 600.0}
    return TestClient(create_app(Settings(data_dir=tmp_path), database), base_url="http://127.0.0.1")


def a_job(database: Database, *, asks: bool) -> tuple[int, int]:
    """An experiment and its job, within a budget."""
    experiment, job_id = enqueue_job(database, 1, a_test_job, device_class=TARGET)
    with database.write() as session:
        money.set_budget(session, BudgetScope.TARGET, TARGET, money.microusd(10), money.microusd(1))
    waits(database, job_id, asks=asks)
    return experiment, job_id


@pytest.mark.parametrize("page", PAGES)
def test_a_job_that_waits_for_its_price_is_told_with_a_button(
    client: TestClient, database: Database, page: str
) -> None:
    _, job_id = a_job(database, asks=True)
    shown = client.get(page).text
    assert f"J-{job_id} waits for your approval of its price." in shown
    assert WHY in shown
    assert ">$2.00</b> at most" in shown
    assert ">$0.500</b> expected" in shown
    form = {"campaign": "C-1", "job": f"J-{job_id}", "up_to_usd": "2.000000"}
    said = client.post("/queue/approve_price", data=form, headers={"hx-request": "true"})
    assert said.status_code == 200
    assert f"J-{job_id} may be submitted when its turn comes, for $2.00 at most." in said.text
    with database.read() as session:
        assert session.get_one(JobQuote, job_id).approved_microusd == 2_000_000


def test_a_price_that_rose_since_the_page_was_read_is_not_approved(
    client: TestClient, database: Database
) -> None:
    _, job_id = a_job(database, asks=True)
    form = {"campaign": "C-1", "job": f"J-{job_id}", "up_to_usd": "1.500000"}
    said = client.post("/queue/approve_price", data=form, headers={"hx-request": "true"})
    assert said.status_code == REFUSED
    assert "is quoted $2.00 at most, which is more than $1.50" in said.text


def test_what_runs_tells_its_price_and_what_it_is_expected_to_gain(
    client: TestClient, database: Database
) -> None:
    experiment, job_id = a_job(database, asks=False)
    runs(database, job_id, ended=False)
    shown = client.get("/").text
    assert 'It costs <b class="num">$2.00</b> at most' in shown
    assert client.get("/").text.count("waits for your approval of its price") == 0
    with database.read() as session:
        assert session.get_one(Experiment, experiment).state == "running"
        assert session.query(Hypothesis).count() <= 1


def test_quote_estimate_and_actual_stand_on_the_experiments_page(
    client: TestClient, database: Database
) -> None:
    experiment, job_id = a_job(database, asks=False)
    page = f"/experiments/E-{experiment:04d}"
    runs(database, job_id, actual=650_000)
    shown = client.get(page).text
    assert "<dd>$0.650</dd>" in shown
    assert "$0.500 estimated, $2.00 quoted at most; by the provider’s bill" in shown
    paid = client.get(f"{page}.json").json()["paid"]
    assert (paid["expected_usd"], paid["bound_usd"], paid["actual_usd"]) == (0.5, 2.0, 0.65)


def test_a_campaign_of_this_machine_tells_no_dollars(client: TestClient, database: Database) -> None:
    with database.write() as session:
        campaign = session.get_one(Campaign, 1)
        campaign.spec = {**campaign.spec, "target": "cpu"}
    a_job(database, asks=True)
    assert all("waits for your approval of its price" not in client.get(page).text for page in PAGES)
