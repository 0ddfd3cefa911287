"""Commands say what may still cost money with no worker to look after it, as after a power cut."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from db.models import Job
from tests.history.paid_history import PaidHistory, a_paid_history
from tests.integration.cli.command import Autoinfer

SAID = "1 run on rented machines may still cost money, $2.00 at most, and no worker looks after it."
DO = "End it with: autoinfer stop --remote; or go on with it: autoinfer worker --target TARGET"


@pytest.fixture
def history(tmp_path: Path) -> Iterator[PaidHistory]:
    (tmp_path / "data").mkdir()
    found = a_paid_history(tmp_path / "data")
    yield found
    found.close()


def test_a_command_says_so_beside_what_it_prints(autoinfer: Autoinfer, history: PaidHistory) -> None:
    for line in ("campaign list", "budget list", "queue"):
        ended = autoinfer(line)
        assert (ended.code, ended.err) == (0, f"autoinfer: {SAID} {DO}\n")
        assert SAID not in ended.out


def test_json_is_left_alone(autoinfer: Autoinfer, history: PaidHistory) -> None:
    assert autoinfer("campaign list --json").err == ""


def test_the_summary_has_a_line_for_it(autoinfer: Autoinfer, history: PaidHistory) -> None:
    ended = autoinfer("summary")
    assert SAID in " ".join(ended.out.split())
    assert ended.err == ""
    assert autoinfer("summary --json").json()["still_paid"] == f"{SAID} {DO}"


def test_the_doctor_warns_of_it(autoinfer: Autoinfer, history: PaidHistory) -> None:
    checks = autoinfer("doctor --json").json()["checks"]
    [check] = [each for each in checks if each["name"] == "rented machines"]
    assert (check["verdict"], check["found"]) == ("warn", SAID)


def test_nothing_is_said_while_a_worker_looks_after_everything(
    autoinfer: Autoinfer, history: PaidHistory
) -> None:
    with history.database.write() as session:
        session.get_one(Job, 5).lease_expires_at = session.get_one(Job, 3).lease_expires_at
    assert autoinfer("campaign list").err == ""
    assert autoinfer("summary --json").json()["still_paid"] is None
    checks = autoinfer("doctor --json").json()["checks"]
    [check] = [each for each in checks if each["name"] == "rented machines"]
    assert (check["verdict"], check["found"]) == ("ok", "2 runs in flight, looked after by workers")


def test_the_doctor_does_not_call_a_database_that_it_cannot_read_free_of_runs(
    autoinfer: Autoinfer, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "autoinfer.db").write_bytes(b"no database, " * 1000)
    checks = autoinfer("doctor --json").json()["checks"]
    [check] = [each for each in checks if each["name"] == "rented machines"]
    assert check["verdict"] == "warn"
    assert "is not known" in check["found"]
