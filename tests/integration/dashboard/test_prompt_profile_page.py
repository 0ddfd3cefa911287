"""Where the time to a lone prompt's first token goes is on an experiment's page, in its JSON and on its
sheet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from html import unescape
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from cli.sheets.experiment import print_experiment
from configs.settings import Settings
from dashboard.app import create_app
from db.models import Campaign
from experiments.engines.port import PartTime
from experiments.space.configuration import KnobValue
from knowledge.queries.measured.experiment_detail import experiment_detail
from tests.history.campaign_history import History
from tests.integration.dashboard.experiment_pages import client, judge_with_stage

__all__ = ["client"]

PARTS = [
    PartTime("gate_up_proj", "gemm", 8.0, 3_000_000_000, launches=32, operations=5e12),
    PartTime("gdn_state", "gdn_state", 1.5, 4_608, launches=120),
    PartTime("outside", "outside", 40.0, 0),
]
PROFILED = {
    "bandwidth_bytes_per_s": 4e12,
    "parts": [asdict(PartTime("lm_head", "lm_head", 0.6, 2_000_000_000, launches=1))],
    "prompt": {
        "prompt_tokens": 1_500,
        "first_token_ms": 48.0,
        "parts": [asdict(part) for part in PARTS],
        "operations_per_s": 1e15,
    },
}
FAILED = {"parts": PROFILED["parts"], "prompt": {"failure": "The profiler recorded no whole prompt."}}


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    found = History(tmp_path_factory.mktemp("prompts"))
    changes: tuple[dict[str, KnobValue], ...] = ({"serving.threads": 1}, {"serving.dtype": "bfloat16"})
    for change, detail in zip(changes, (PROFILED, FAILED), strict=True):
        judge_with_stage(found, change, "profile", 3.0, detail)
    yield found
    found.close()


def test_the_page_has_both_profiles_and_the_floor_of_each_part(client: TestClient) -> None:
    page = unescape(client.get("/experiments/E-0001").text)
    assert 'id="ex-profile"' in page
    section = page.split('id="ex-prompt"')[1].split("</section>")[0]
    assert "first token after a lone prompt of 1,500 tokens, by part" in section
    for words in ("8.000", "5.000", "3.000", "40.000", "to the first token", "Floor of time", "TFLOP/s"):
        assert words in section, words


def test_a_part_whose_work_is_not_counted_has_no_floor_of_nothing(client: TestClient) -> None:
    page = unescape(client.get("/experiments/E-0001").text)
    section = page.split('id="ex-prompt"')[1].split("</section>")[0]
    row = section.split("GatedDeltaNet state")[1].split("</tr>")[0]
    assert "not counted" in row
    assert "0.000" not in row
    assert "w-o1" not in row, "it is not shown as above a floor"
    assert "Of the parts that are not counted" in section
    assert "not counted" not in page.split('id="ex-profile"')[1].split("</section>")[0]


def test_the_json_and_the_sheet_have_it_too(
    client: TestClient, history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    told = client.get("/experiments/E-0001.json").json()
    assert told["prompt_profile"]["floor_ms"] == pytest.approx(5.0, abs=1e-5)
    assert [row["part"] for row in told["prompt_profile"]["parts"] if not row["counted"]] == ["gdn_state"]
    with history.database.read() as session:
        print_experiment(experiment_detail(session, 1))
    text = capsys.readouterr().out
    assert "first token after a lone prompt of 1,500 tokens, by part" in text
    assert "40,000" in text


def test_why_a_lone_prompt_was_not_profiled_is_on_the_page(client: TestClient) -> None:
    page = unescape(client.get("/experiments/E-0002").text)
    assert "A lone prompt was not profiled: The profiler recorded no whole prompt." in page
    assert 'id="ex-prompt"' not in page


@pytest.mark.parametrize(
    ("metric", "order"),
    [
        (
            "ttft_ms",
            ("first token after a lone prompt of 1,500 tokens, by part", "A decode step of the candidate"),
        ),
        (
            "tpot_ms",
            ("A decode step of the candidate", "first token after a lone prompt of 1,500 tokens, by part"),
        ),
    ],
)
def test_the_profile_of_what_the_campaign_is_after_comes_first(
    tmp_path: Path, metric: str, order: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    found = History(tmp_path)
    judge_with_stage(found, {"serving.threads": 1}, "profile", 3.0, PROFILED)
    with found.database.write() as session:
        campaign = session.get_one(Campaign, 1)
        campaign.objective = {**campaign.objective, "metric": metric}
    with found.database.read() as session:
        print_experiment(experiment_detail(session, 1))
    app = create_app(Settings(data_dir=tmp_path), found.database)
    with TestClient(app, base_url="http://127.0.0.1") as asks:
        page = unescape(asks.get("/experiments/E-0001").text)
    found.close()
    for text in (page, capsys.readouterr().out):
        assert text.count(order[0]) == text.count(order[1]) == 1
        assert text.index(order[0]) < text.index(order[1])
