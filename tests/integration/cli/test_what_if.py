"""`autoinfer queue --what-if` on a campaign whose queue is long enough to move."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from configs.settings import Settings
from dashboard.app import create_app
from db.models import Campaign
from db.session import open_database
from tests.history.large_history import large_history
from tests.history.large_story import Size
from tests.history.model_elsewhere import FOLDER, move_model_away
from tests.integration.cli.command import Autoinfer
from tests.new_database import database_url


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("queue")
    large_history(folder, Size(experiments=24, events=60)).close()
    return folder


@pytest.fixture
def command(tmp_path: Path, written: Path) -> Autoinfer:
    shutil.copytree(written, tmp_path / "data")
    return Autoinfer(tmp_path / "data")


def test_one_verdict_is_assumed_with_its_effect_and_told_with_who_moves_or_leaves(
    command: Autoinfer,
) -> None:
    done = command("queue --what-if H-026=supported:-12% --json")
    assert done.code == 0, done.err
    told = done.json()
    (one,) = told["consequences"]
    assert (told["campaign"], told["hypothesis"]) == ("C-1", "H-026")
    assert (one["outcome"], one["change"]) == ("supported", -0.12)
    assert one["leave"] or one["moves"]
    assert all(move["why"] for move in one["moves"])
    read = command("queue --what-if H-026=supported:-12%").out
    assert read.startswith("If H-026 is supported with −12.0 %: ")
    assert all(label in read for label in one["leave"])


def test_of_made_up_weights_it_says_that_times_alone_are_told(command: Autoinfer, tmp_path: Path) -> None:
    asked = "queue --what-if H-026=supported:-12%"
    assert command(f"{asked} --json").json()["latency_only"] is False
    database = open_database(database_url(tmp_path / "data"))
    with database.write() as session:
        campaign = session.get_one(Campaign, 1)
        campaign.spec = {**campaign.spec, "weights": "dummy"}
    client = TestClient(create_app(Settings(data_dir=tmp_path), database), base_url="http://127.0.0.1")
    page = client.get("/queue/what-if?hypothesis=H-026")
    shown = client.get("/queue/what-if.json?hypothesis=H-026").json()
    database.close()
    assert page.status_code == 200
    assert "Latency only: the weights are made up" in page.text[page.text.index("<main") :]
    assert shown["latency_only"] is True
    assert command(f"{asked} --json").json()["latency_only"] is True
    assert command(asked).out.startswith("If H-026 is supported with −12.0 %, latency only: ")


@pytest.fixture
def model_elsewhere(tmp_path: Path, command: Autoinfer) -> Autoinfer:
    """The database of a campaign on a model that this machine does not have."""
    database = open_database(database_url(tmp_path / "data"))
    move_model_away(database)
    database.close()
    return command


def test_where_the_model_is_not_on_this_machine_what_needs_no_shape_is_told_and_why_the_rest_is_not(
    command: Autoinfer, model_elsewhere: Autoinfer, tmp_path: Path, written: Path
) -> None:
    shutil.copytree(written, tmp_path / "whole" / "data")
    known = Autoinfer(tmp_path / "whole" / "data")("queue --what-if H-026=supported:-12% --json").json()
    done = model_elsewhere("queue --what-if H-026=supported:-12% --json")
    assert done.code == 0, done.err
    (there,), (here,) = known["consequences"], done.json()["consequences"]
    assert known["unranked"] is None
    assert (here["is_best"], here["leave"]) == (there["is_best"], there["leave"])
    assert here["leave"]
    assert (here["moved"], here["moves"], here["next"]) == (None, [], None)
    read = " ".join(model_elsewhere("queue --what-if H-026=supported:-12%").out.split())
    assert read.startswith("Where the others would go can't be told here. The campaign's model is not on")
    assert f"{FOLDER} has no config.json" in read
    assert "Put the model's folder back in its place" in read
    assert f"leave {', '.join(here['leave'])}" in read


def test_the_queue_says_of_each_why_it_moved(command: Autoinfer) -> None:
    rows = command("queue --json").json()["items"]
    read = " ".join(command("queue").out.split())
    moved = [row for row in rows if row["move_reason"]]
    assert moved
    assert all(f"moved {row['move_reason']}" in read for row in moved)


def test_without_a_verdict_each_outcome_is_assumed(command: Autoinfer) -> None:
    found = command("queue --what-if H-026 --json").json()["consequences"]
    assert [each["outcome"] for each in found] == ["supported", "refuted", "infeasible"]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("H-026=maybe", "'maybe' is no outcome."),
        ("H-026=supported:-1%", "−1.0 % is less than the 3 % that H-026 must save to be supported."),
        ("H-026=refuted:-5%", "Only a supported verdict comes with an effect"),
        ("H-001=refuted", "H-001 does not wait in the queue of C-1"),
        ("H-999=refuted", "H-999 does not exist"),
        ("E-0001=refuted", "E-0001"),
        ("=refuted", "'' is not a label"),
        ("H-026=refuted --awaiting", "--what-if and --awaiting don't go together."),
        ("H-026=refuted --campaign C-9", "C-9 does not exist"),
    ],
)
def test_what_can_not_be_assumed_is_refused_in_a_sentence(
    command: Autoinfer, asked: str, message: str
) -> None:
    done = command(f"queue --what-if {asked}")
    assert done.code == 2, done.out
    assert message in " ".join(done.err.split())
    assert "Traceback" not in done.err
