"""What is predicted of a hypothesis by the belief that ranks it is drawn, and named apart from what was
predicted when it was proposed: on the pages, on the command line and to an agent that asks."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from html import unescape
from math import log1p
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from cli.main import call
from configs.settings import Settings
from dashboard.app import create_app
from dashboard.mcp import hypothesis_answers
from db.models import Hypothesis
from db.states import HypothesisState
from knowledge.queries.order.queue import queue_page
from tests.history.campaign_history import History

THEN = "−10.0 % [−15.6, −4.0]"
NOW = "+9.0 % [+2.2, +16.2]"
OF_PLACE = {"score": 0.001, "gain": 0.02, "p_quality": 0.9, "p_feasible": 0.8, "cost_s": 100.0}


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    """A hypothesis that was proposed as faster and that the ranking believes to be slower by now."""
    found = History(tmp_path)
    found.propose({"serving.threads": 1}, rank=1, rank_reason="first: probably costs 9 % [2, 16], 100 s")
    believe(found, log1p(0.09))
    yield found
    found.close()


def believe(history: History, mean: float | None) -> None:
    belief = {} if mean is None else {"log_ratio_mean": mean, "log_ratio_sd": 0.05}
    with history.database.write() as session:
        session.get_one(Hypothesis, 1).score = {**OF_PLACE, "directive_factor": 1.0, **belief}


def client_of(history: History, folder: Path) -> TestClient:
    return TestClient(create_app(Settings(data_dir=folder), history.database), base_url="http://127.0.0.1")


def words_of(history: History, folder: Path, path: str) -> str:
    with client_of(history, folder) as client:
        text = re.sub("<[^>]+>", " ", client.get(path).text)
    return " ".join(unescape(text).replace("\u202f", " ").split())


def printed(capsys: pytest.CaptureFixture[str], folder: Path, *words: str) -> str:
    assert call([*words, "--data-dir", str(folder)]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_the_queue_draws_what_ranks_it_and_names_the_other(history: History, tmp_path: Path) -> None:
    assert f"{NOW} when proposed {THEN}" in words_of(history, tmp_path, "/queue")
    with client_of(history, tmp_path) as client:
        assert f'aria-label="Predicted {NOW}"' in client.get("/queue").text.replace("\u202f", " ")


def test_now_draws_it_too_with_the_other_in_its_tip(history: History, tmp_path: Path) -> None:
    with client_of(history, tmp_path) as client:
        page = client.get("/").text.replace("\u202f", " ")
    assert f'title="{NOW}, when proposed {THEN}">+9.0 %<' in page


def test_the_page_of_the_hypothesis_has_both(history: History, tmp_path: Path) -> None:
    told = words_of(history, tmp_path, "/hypotheses/H-001")
    assert f"[+2.2, +16.2], 80 %; when proposed {THEN}" in told
    assert f"Predicted {NOW} When proposed {THEN}" in told


def test_the_command_line_has_both(
    history: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = f"{NOW} now, {THEN} when proposed; 80 % intervals"
    assert f"predicted {both}" in printed(capsys, tmp_path, "queue")
    assert f"predicted TPOT {both}" in printed(capsys, tmp_path, "show", "H-001")


def test_programs_and_agents_are_given_both(history: History, tmp_path: Path) -> None:
    with client_of(history, tmp_path) as client:
        (row,) = client.get("/queue.json").json()["board"]["rows"]["items"]
        (cells,) = csv.DictReader(client.get("/queue.csv").text.splitlines())
        detail = client.get("/hypotheses/H-001.json").json()
    assert row["predicted"]["relative"] == pytest.approx(-0.10)
    assert row["predicted_now"]["relative"] == pytest.approx(0.09)
    assert (float(cells["predicted"]), float(cells["predicted_now"])) == pytest.approx((-0.10, 0.09))
    assert detail["predicted_now"] == row["predicted_now"]
    with history.database.read() as session:
        (item,) = hypothesis_answers.queue(session, None, None, 10, 0).items
        why = hypothesis_answers.why(session, "H-001")
    assert item.predicted_now is not None
    assert (item.predicted_now.change, item.predicted_now) == (9.0, why.predicted_now)


def test_what_is_believed_as_it_was_proposed_is_told_once(
    history: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    believe(history, log1p(-0.10))
    assert "when proposed" not in words_of(history, tmp_path, "/queue")
    assert f"predicted {THEN}, 80 % interval" in printed(capsys, tmp_path, "queue")


def test_where_the_belief_was_not_kept_what_is_shown_is_named(
    history: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    believe(history, None)
    assert f"{THEN} when proposed" in words_of(history, tmp_path, "/queue")
    assert f"predicted {THEN} when proposed, 80 % interval" in printed(capsys, tmp_path, "queue")
    assert f"When proposed {THEN}" in words_of(history, tmp_path, "/hypotheses/H-001")


def test_under_test_what_was_sealed_is_shown(history: History) -> None:
    with history.database.write() as session:
        session.get_one(Hypothesis, 1).state = HypothesisState.TESTING
    with history.database.read() as session:
        (row,) = queue_page(session, 1, limit=1).items
    assert row.predicted is not None
    assert (row.predicted_now, row.predictions) == (None, (row.predicted, None, False))
