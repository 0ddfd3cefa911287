"""Every command that reads, and every page, tells the same from PostgreSQL as from SQLite."""

import json
import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import update

from configs.settings import Settings
from dashboard.app import PAGES, create_app
from db.clock import now
from db.models import Campaign, Experiment
from db.session import Database, open_database
from db.states import Arm, CampaignState, ExperimentState
from tests.copied_rows import copy_rows
from tests.history.campaign_history import a_full_history, add_launch
from tests.history.slowed_gpu import CALM, HOT, environment
from tests.integration.cli.command import Autoinfer
from tests.new_database import database_url
from tests.postgresql import PASSWORD, Server

LINES = (
    "summary",
    "queue",
    "hypotheses",
    "experiments",
    "findings",
    "show C-1",
    "show H-001",
    "show E-0001",
    "show E-0001 --samples",
    "show F-001",
    "show A-3fa9",
    "graph show",
    "log",
    "campaign list",
    "artifacts list",
    "db upgrade",
)
LABELS = {"hypotheses": "H-001", "experiments": "E-0001", "knowledge": "F-001", "campaigns": "C-1"}
ITS_OWN = ("/settings", "/gpus")
"""Pages that tell where the database is, or of this very moment."""


@pytest.fixture(scope="module")
def file_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("history")
    history = a_full_history(folder)
    with history.database.write() as session:
        first = session.get_one(Experiment, 1)
        add_launch(session, first, Arm.CONTROL, "validation", {}, [], environment(HOT, CALM))
    with history.database.write() as session:  # at its end, so that nothing it tells moves with the clock
        campaign = session.get_one(Campaign, 1)
        campaign.state, campaign.ended_at = CampaignState.STOPPED, campaign.started_at + timedelta(seconds=9)
        session.execute(
            update(Experiment).where(Experiment.state == ExperimentState.RUNNING).values(finished_at=now())
        )
    history.close()
    return folder


@pytest.fixture(scope="module")
def copied(server: Server, file_folder: Path) -> str:
    """The same campaign on PostgreSQL: its URL."""
    url = server.url(server.new_database())
    source, target = open_database(database_url(file_folder)), open_database(url)
    assert copy_rows(source, target) > 50
    source.close()
    target.close()
    return url


@pytest.mark.parametrize("line", LINES)
def test_a_command_prints_the_same(file_folder: Path, copied: str, tmp_path: Path, line: str) -> None:
    shutil.copytree(file_folder, tmp_path / "data")
    autoinfer = Autoinfer(tmp_path / "data")
    of_file = autoinfer(f"{line} --json")
    of_server = autoinfer(f"{line} --json", AUTOINFER_DATABASE_URL=copied)
    assert (of_server.code, of_server.err) == (of_file.code, of_file.err)
    assert PASSWORD not in of_server.out
    assert without_place(of_server.json()) == without_place(of_file.json())
    assert autoinfer(line, AUTOINFER_DATABASE_URL=copied).code == of_file.code


def without_place(document: Any) -> Any:
    """What is told, without where the database lies and without what changes by the second."""
    if isinstance(document, dict):
        return {key: without_place(value) for key, value in document.items() if key not in MOVING}
    return [without_place(each) for each in document] if isinstance(document, list) else document


MOVING = ("database", "elapsed_s")


def test_a_gpu_that_was_held_down_is_told_from_both(clients: tuple[TestClient, TestClient]) -> None:
    told = [client.get("/now.json").json()["throttling"] for client in clients]
    assert (told[0]["held_down"], told[0]["blocks"], told[0]["max_sm_mhz"]) == (1, 2, 1980)
    assert told[1] == told[0]


@pytest.fixture(scope="module")
def clients(
    file_folder: Path, copied: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[TestClient, TestClient]]:
    data = tmp_path_factory.mktemp("pages")
    databases = [open_database(database_url(file_folder)), open_database(copied)]
    made = [client_of(data, url, each) for url, each in zip((None, copied), databases, strict=True)]
    yield made[0], made[1]
    for database in databases:
        database.close()


def client_of(data: Path, url: str | None, database: Database) -> TestClient:
    settings = Settings(data_dir=data) if url is None else Settings(data_dir=data, database_url=url)
    return TestClient(create_app(settings, database), base_url="http://127.0.0.1")


def path_of(pattern: str) -> str:
    return pattern.replace("{label}", LABELS.get(pattern.split("/")[1], ""))


@pytest.mark.parametrize("pattern", [page.path for page in PAGES])
def test_a_page_tells_the_same(clients: tuple[TestClient, TestClient], pattern: str) -> None:
    path = path_of(pattern)
    twin = "/now.json" if path == "/" else f"{path}.json"
    of_file, of_server = (client.get(path) for client in clients)
    assert (of_server.status_code, of_file.status_code) == (200, 200), of_server.text[-800:]
    assert PASSWORD not in of_server.text
    twins = [client.get(twin) for client in clients]
    if twins[0].status_code == 200 and pattern not in ITS_OWN:
        documents = [json.loads(each.text) for each in twins]
        assert without_place(documents[1]) == without_place(documents[0])
