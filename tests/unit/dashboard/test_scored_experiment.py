"""An experiment whose metric is scored: its page counts launches and what was scored, no launch pairs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from configs.settings import Settings
from dashboard.app import create_app
from db.models import Experiment, Hypothesis, Verdict
from db.states import VerdictOutcome
from tests.history.campaign_history import History


def read_outs(history: History, metric: str) -> str:
    """What the page's first figures say, without tags."""
    hypothesis = history.propose({"serving.dtype": "bfloat16"})
    with history.database.write() as session:
        session.get_one(Hypothesis, hypothesis).metric = metric
    judged = history.judge(hypothesis, VerdictOutcome.SUPPORTED, learn=False)
    with history.database.write() as session:
        experiment = session.get_one(Experiment, judged.experiment_id)
        experiment.plan = {**experiment.plan, "metric": metric}
    app = create_app(Settings(data_dir=Path("unused")), history.database)
    page = TestClient(app, base_url="http://127.0.0.1").get("/experiments/E-0001").text
    shown = page.partition('id="ex-read"')[2].partition("</dl>")[0]
    sealed = page.partition('id="ex-sealed"')[2].partition("</section>")[0]
    return " ".join(re.sub("<[^>]*>", " ", shown + sealed).split())


@pytest.mark.parametrize(("metric", "units"), [("nll_bits", "documents"), ("task_correct", "items")])
def test_what_is_scored_has_launches_and_no_pairs(tmp_path: Path, metric: str, units: str) -> None:
    history = History(tmp_path)
    said = read_outs(history, metric)
    history.close()
    assert "Launches 4 of both arms" in said
    assert f"8 {units} scored" in said
    assert "pair" not in said
    assert "anytime-valid" not in said


def test_quality_is_told_with_the_level_of_its_interval_and_leads_to_its_samples(tmp_path: Path) -> None:
    history = History(tmp_path)
    judged = history.judge(history.propose({"serving.dtype": "bfloat16"}), VerdictOutcome.SUPPORTED)
    lost = {"difference": -4.42, "low": -6.05, "high": -2.85, "margin": 2.0, "count": 1200}
    more = {"difference": 0.005, "low": 0.003, "high": 0.007, "margin": 0.01, "count": 128}
    with history.database.write() as session:
        verdict = session.get_one(Verdict, judged.verdict_id)
        verdict.quality = {"state": "held", "task_points_lost": lost, "bits_per_byte_relative": more}
    app = create_app(Settings(data_dir=Path("unused")), history.database)
    page = TestClient(app, base_url="http://127.0.0.1").get("/experiments/E-0001").text
    history.close()
    table = page.partition('id="ex-quality"')[2].partition("</section>")[0]
    assert "held · each end one-sided, 95" in table
    links = re.findall(r'href="/experiments/E-0001/samples\?metric=(\w+)">([\d,]+) (\w+)</a>', table)
    assert links == [("nll_bits", "128", "documents"), ("task_correct", "1,200", "items")]


def test_what_is_timed_has_launch_pairs(tmp_path: Path) -> None:
    history = History(tmp_path)
    said = read_outs(history, "tpot_ms")
    history.close()
    assert re.search(r"Launch pairs \d+ of \d+ at most", said)
    assert "anytime-valid" in said
