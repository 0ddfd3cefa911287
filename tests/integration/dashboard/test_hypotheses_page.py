"""The pages of hypotheses: list, one of them, predicted against measured, with their twins."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from configs.settings import Settings
from dashboard.app import create_app
from db.states import VerdictOutcome
from tests.history.campaign_history import a_full_history
from tests.new_database import new_database

HOSTILE = "<script>alert(1)</script> \"'> is {{ faster }}."


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder = tmp_path_factory.mktemp("full")
    history = a_full_history(folder)
    hostile = history.propose({"serving.threads": 16}, claim=HOSTILE)
    history.judge(hostile, VerdictOutcome.CONFOUNDED, reason=HOSTILE)
    yield TestClient(create_app(Settings(data_dir=folder), history.database), base_url="http://127.0.0.1")
    history.close()


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder: Path = tmp_path_factory.mktemp("empty")
    database = new_database(folder)
    yield TestClient(create_app(Settings(data_dir=folder), database), base_url="http://127.0.0.1")
    database.close()


def test_the_list_says_what_stands_and_shows_every_row(full: TestClient) -> None:
    page = full.get("/hypotheses").text
    assert "8 hypotheses: 3 active, 1 supported, 2 ruled out." in page
    assert all(f'<tr id="H-00{number}">' in page for number in range(1, 9))
    assert "1 hypothesis is under test; 2 hypotheses in the queue." in page
    assert "1 hypothesis is supported, 2 ruled out (1 refuted and 1 infeasible)" in page


def test_a_group_of_states_filters_page_and_twins_alike(full: TestClient) -> None:
    asked = "?state=ruled-out&sort=measured&q=faster&lever="
    assert [row["id"] for row in full.get(f"/hypotheses.json{asked}").json()["items"]] == ["H-002", "H-003"]
    assert len(full.get(f"/hypotheses.csv{asked}").text.splitlines()) == 3
    page = full.get(f"/hypotheses{asked}").text
    assert "autoinfer hypotheses --state refuted --state infeasible --search faster --sort measured" in page
    assert "H-004" not in page.partition('id="hy-rows"')[2].partition("</table>")[0]


def test_hostile_text_is_text(full: TestClient) -> None:
    for path in ("/hypotheses", "/hypotheses/H-008", "/predictions"):
        page = full.get(path).text
        assert "<script>alert" not in page
        assert " style=" not in page
        assert "onclick" not in page


def test_a_hypothesis_tells_its_moves_with_their_cause_and_its_tests(full: TestClient) -> None:
    moved, judged = full.get("/hypotheses/H-006").text, full.get("/hypotheses/H-001").text
    assert "Threads turned out to matter." in moved
    assert "Something was judged." in moved
    assert "/log?since=" in moved
    assert 'href="/queue?campaign=C-1#H-006"' in moved, "of its own campaign, which may not be the newest"
    assert 'href="/experiments/E-0001"' in judged
    assert "TPOT does not fall by 3\u202f%." in judged
    assert 'href="/hypotheses/H-002"' in judged
    assert "autoinfer show H-001" in judged
    assert full.get("/hypotheses/h-1.json").json()["state"] == "supported"


def test_predictions_leave_out_what_measured_more_than_was_predicted(full: TestClient) -> None:
    found = full.get("/predictions.json").json()
    assert [each["hypothesis"] for each in found["points"]] == ["H-004", "H-002", "H-001"]
    assert (found["total"], found["inside"]) == (3, 1)
    assert "1 of 3 outcomes came out inside" in full.get("/predictions").text


def test_queue_and_campaign_say_how_often_predictions_held_as_the_page_of_predictions_counts(
    full: TestClient,
) -> None:
    for path in ("/queue", "/campaigns/C-1"):
        assert "1 of 3 outcomes</a>" in full.get(path).text
        found = full.get(f"{path}.json").json()["calibration"]
        assert (found["total"], found["inside"]) == (3, 1)


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/hypotheses/H-999", 404, "H-999 does not exist"),
        ("/hypotheses/E-0001", 404, "names an experiment"),
        ("/hypotheses?campaign=C-77", 404, "C-77 does not exist"),
        ("/hypotheses?state=sideways", 422, "state"),
        ("/hypotheses?offset=500", 200, "ends before this page"),
        ("/hypotheses?q=nothing+like+it", 200, "No hypothesis is like that"),
    ],
)
def test_what_makes_no_sense_is_told(full: TestClient, path: str, status: int, words: str) -> None:
    answer = full.get(path)
    assert answer.status_code == status
    assert words in answer.text


def test_an_empty_database_says_what_to_do_next(empty: TestClient) -> None:
    assert "autoinfer run" in empty.get("/hypotheses").text
    assert "No prediction was tested yet" in empty.get("/predictions").text


def test_the_list_says_how_often_each_proposer_was_right(full: TestClient) -> None:
    [found] = full.get("/hypotheses.json?campaign=C-1").json()["proposers"]
    states = full.get("/hypotheses.json").json()["facets"]["states"]
    assert found["name"] == "rules"
    assert found["proposed"] == sum(states.values())
    assert found["judged"] == sum(
        states.get(each, 0) for each in ("supported", "refuted", "inconclusive", "infeasible")
    )
    assert found["supported"] == states["supported"]
    page = full.get("/hypotheses?campaign=C-1").text
    told = page.partition('id="hy-from-rules"')[2].partition("</tr>")[0]
    assert f"{found['supported']} of {found['judged']}" in told
    assert f"{100 * found['low']:.0f} to {100 * found['high']:.0f}" in told
    assert f"shrunk {100 * found['chance']:.0f}" in told
    everywhere = full.get("/hypotheses").text
    assert "all campaigns" in everywhere
    assert "shrunk" not in everywhere, "a share is of one campaign"


def test_where_nobody_proposed_anything_nothing_is_said_of_proposers(empty: TestClient) -> None:
    assert 'id="hy-proposers"' not in empty.get("/hypotheses").text
