"""An experiment whose metric is scored: its page counts launches and what was scored, no launch pairs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from configs.settings import Settings
from dashboard.app import create_app
from db.models import Experiment, Hypothesis
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


def test_what_is_timed_has_launch_pairs(tmp_path: Path) -> None:
    history = History(tmp_path)
    said = read_outs(history, "tpot_ms")
    history.close()
    assert re.search(r"Launch pairs \d+ of \d+ at most", said)
    assert "anytime-valid" in said
