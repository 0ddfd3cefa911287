"""Modal's bill by day, as its real library reports it, beside what the runs here count for."""

import json
import time
from pathlib import Path

import pytest

from cli.main import call
from db import queue, remote_runs
from experiments.executors.modal.protocol import APP_NAME
from tests.new_database import new_database
from tests.simulated.modal.server import FakeModal
from tests.simulated.queueing import enqueue_job, start_campaign
from tests.simulated.specs import a_test_job

TARGET = "modal:H100!"
DAY_S = 86_400


def told(capsys: pytest.CaptureFixture[str], folder: Path, *words: str) -> list[dict]:
    assert call(["--data-dir", str(folder), "modal", "bill", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)["days"]


def test_days_of_the_bill_stand_beside_what_is_counted_here(
    fake: FakeModal, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    database = new_database(tmp_path)
    campaign = start_campaign(database)
    for actual in (400_000, 250_000, None):
        _, job_id = enqueue_job(database, campaign, a_test_job, device_class=TARGET)
        with database.write() as session:
            claimed = queue.claim_one(session, job_id, "someone", f"{TARGET}/J-{job_id}", 60)
            assert claimed is not None
            quote = {"expected_s": 1.0, "expected": 1, "bound": 2_000_000, "basis": "told"}
            run = remote_runs.intend(
                session, claimed, executor="modal", target=TARGET, key=f"job{job_id}", **quote
            )
            if actual is not None:
                remote_runs.settle(session, run.id, "done", 80.0, actual)
    database.close()
    today_s = time.time() // DAY_S * DAY_S
    fake.bill += [
        (APP_NAME, today_s - DAY_S, 0.3),
        (APP_NAME, today_s - DAY_S + 3600, 0.4),
        ("another", today_s - DAY_S, 9.0),
        (APP_NAME, today_s - 9 * DAY_S, 5.0),
    ]
    yesterday, today = told(capsys, tmp_path)
    assert (yesterday["billed_usd"], yesterday["counted_usd"], yesterday["runs"]) == (0.7, 0.0, 0)
    assert (today["billed_usd"], today["counted_usd"]) == (0.0, 0.65)
    assert (today["open_usd"], today["runs"], today["difference_usd"]) == (2.0, 3, -0.65)
    assert len(told(capsys, tmp_path, "--days", "10")) == 3
    assert call(["--data-dir", str(tmp_path), "modal", "bill"]) == 0
    text = capsys.readouterr().out
    assert "Modal's bill" in text
    assert "$0.700" in text


def test_a_bill_without_a_line_needs_no_database(
    fake: FakeModal, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert told(capsys, tmp_path / "none") == []
    assert call(["--data-dir", str(tmp_path / "none"), "modal", "bill"]) == 0
    assert "Modal billed nothing for the app since" in capsys.readouterr().out
    assert not (tmp_path / "none").exists()


def test_a_token_that_may_not_see_the_bill_is_told_in_a_sentence(
    fake: FakeModal, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    from grpclib.const import Status

    fake.refuse["WorkspaceBillingReport"] = [Status.PERMISSION_DENIED]
    assert call(["--data-dir", str(tmp_path), "modal", "bill"]) == 1
    assert "Modal does not allow this: refused as the test asked." in capsys.readouterr().err
