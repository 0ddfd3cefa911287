"""What a tab of the browser is called: by what its page shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from configs.settings import Settings
from dashboard.app import create_app
from db.states import VerdictOutcome
from tests.history.campaign_history import History


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    history = History(tmp_path_factory.mktemp("titles"))
    for threads in (1, 4):
        history.judge(history.propose({"serving.threads": threads}), VerdictOutcome.SUPPORTED)
    app = create_app(Settings(data_dir=Path("unused")), history.database)
    yield TestClient(app, base_url="http://127.0.0.1")
    history.close()


@pytest.mark.parametrize(
    ("path", "title"),
    [
        ("/campaigns/C-1", "C-1 default"),
        ("/knowledge/F-001", "F-001 Running on 1 thread instead of 2 lowers TPOT by 10.0\u202f%..."),
        ("/knowledge?whole=1", "The whole graph"),
        ("/compare?ids=E-0001,E-0002", "E-0001, E-0002 side by side"),
    ],
)
def test_a_tab_is_called_by_what_it_shows(client: TestClient, path: str, title: str) -> None:
    found = re.search(r"<title>(.*?)</title>", client.get(path).text, re.DOTALL)
    assert found is not None
    assert unescape(found[1]).strip() == f"{title} · autoinfer"
