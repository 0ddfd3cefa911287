"""The Costs page and the metrics tell dollars beside what they rest on, by target and by day."""

import csv
import io
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from configs.settings import Settings
from dashboard.app import create_app
from db import money
from db.states import BudgetScope
from tests.new_database import new_database
from tests.simulated.paid_jobs import TARGET, runs, waits
from tests.simulated.queueing import enqueue_job, start_campaign
from tests.simulated.specs import a_test_job


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    database = new_database(tmp_path)
    campaign = start_campaign(database)
    first, second, third, last = (
        enqueue_job(database, campaign, a_test_job, device_class=TARGET)[1] for _ in range(4)
    )
    runs(database, first, actual=650_000)
    runs(database, second)
    runs(database, third, ended=False)
    waits(database, last)
    with database.write() as session:
        money.set_budget(session, BudgetScope.TARGET, TARGET, money.microusd(10), money.microusd(1))
    yield TestClient(create_app(Settings(data_dir=tmp_path), database), base_url="http://127.0.0.1")
    database.close()


def test_quote_estimate_and_actual_are_kept_apart_by_target_and_by_day(client: TestClient) -> None:
    told = client.get("/costs.json").json()["money"]
    [target] = told["targets"]
    assert (target["name"], target["runs"], target["open"], target["settled"]) == (TARGET, 3, 1, 1)
    assert (target["quoted_usd"], target["estimated_usd"]) == (6.0, 1.5)
    assert (target["actual_usd"], target["unknown_usd"], target["reserved_usd"]) == (0.65, 2.0, 2.0)
    assert target["difference_usd"] == 0.15
    [day] = told["days"]
    assert day["name"] == datetime.now(UTC).date().isoformat()
    assert day["actual_usd"] == target["actual_usd"]
    [budget] = told["budgets"]
    assert (budget["spent_usd"], budget["reserved_usd"], budget["left_usd"]) == (2.65, 2.0, 5.35)


def test_no_amount_stands_without_what_it_rests_on(client: TestClient) -> None:
    page = client.get("/costs").text
    assert (
        "$2.65 of rented machines (1 by the provider&#39;s bill, 1 not told), at most $2.00 in flight" in page
    )
    assert "Quotes rest on: the tests&#39; own price" in page
    assert "autoinfer approve J-4" in page


def test_the_table_has_dollars_beside_seconds(client: TestClient) -> None:
    rows = list(csv.DictReader(io.StringIO(client.get("/costs.csv").text)))
    [paid] = [row for row in rows if row["by"] == "paid target"]
    assert (paid["name"], paid["actual_usd"], paid["wall_s"], paid["billed"]) == (TARGET, "0.65", "80.0", "1")
    assert all(row["actual_usd"] == "" for row in rows if not row["by"].startswith("paid"))


def test_a_watcher_gets_dollars_by_target_and_what_is_left(client: TestClient) -> None:
    text = client.get("/metrics").text
    assert 'autoinfer_remote_actual_usd_total{target="files:T"} 0.65' in text
    assert 'autoinfer_remote_reserved_usd{target="files:T"} 2' in text
    assert 'autoinfer_budget_left_usd{scope="target",name="files:T"} 5.35' in text
