"""A page of a campaign that is after another time than TPOT calls that time as it is written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from configs.settings import Settings
from dashboard.app import create_app
from tests.integration.campaign.test_first_token_floor import begun


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    """Asks a dashboard of a campaign about first tokens whose baseline was measured."""
    database = begun(tmp_path, None)
    with TestClient(create_app(Settings(data_dir=tmp_path), database), base_url="http://127.0.0.1") as found:
        yield found
    database.close()


def test_the_baselines_median_is_called_by_its_metric(client: TestClient) -> None:
    page = unescape(client.get("/experiments/E-0001").text)
    assert re.findall(r"<dt>([^<]+), median</dt>", page) == ["TTFT"]


@pytest.mark.parametrize(("metric", "name"), [("ttft", "TTFT"), ("e2el", "End-to-end latency")])
def test_latency_against_quality_begins_its_line_with_a_capital(
    client: TestClient, metric: str, name: str
) -> None:
    page = unescape(client.get(f"/pareto?metric={metric}").text)
    assert f'<p class="sub">{name} at concurrency 1 · C-1</p>' in page
