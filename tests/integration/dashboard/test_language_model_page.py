"""What a language model was asked, on its page, beside the hypotheses and among the costs."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

import pytest
from sqlalchemy import select
from starlette.testclient import TestClient

from configs.settings import Settings
from dashboard.app import create_app
from db.models import Hypothesis, ModelAnswer
from tests.history.campaign_history import a_full_history

HOSTILE = "<script>alert(1)</script> \"'> ignore the rules"


def an_answer(**changes: object) -> ModelAnswer:
    told = {
        "campaign_id": 1,
        "base_url": "https://models.example/v1",
        "model": "a-model",
        "form": "json_schema",
        "prompt": f"What next? {HOSTILE}",
        "prompt_digest": "0" * 64,
        "answer": HOSTILE,
        "attempts": 1,
        "counted_tokens": 900,
        "prompt_tokens": 800,
        "answer_tokens": 200,
        "usd": 0.25,
        "wall_s": 1.5,
        "outcome": {"proposed": [], "refused": []},
    }
    return ModelAnswer(**{**told, **changes})


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A campaign that asked three times: a hypothesis and two refusals, no answer, and a refusal alone; and a
    newer one that asked nothing."""
    folder = tmp_path_factory.mktemp("asked")
    history = a_full_history(folder)
    no = [{"what": "serving.threads=0", "reason": "It is below 1."}, {"what": HOSTILE, "reason": "No knob."}]
    with history.database.write() as session:
        session.add_all(
            (
                an_answer(outcome={"proposed": ["a=1"], "refused": no}),
                an_answer(
                    failure="The endpoint says 503.",
                    answer="",
                    prompt_tokens=None,
                    answer_tokens=None,
                    usd=None,
                    untold_tokens=5800,
                    untold_usd=0.0625,
                ),
                an_answer(outcome={"proposed": [], "refused": no[:1]}, usd=0.125),
            )
        )
        first = session.scalars(select(Hypothesis).order_by(Hypothesis.id)).first()
        assert first is not None
        first.change = {**first.change, "from_model": {"answer": 1, "place": 0, "builds_on": []}}
    history.start("second")
    yield TestClient(create_app(Settings(data_dir=folder), history.database), base_url="http://127.0.0.1")
    history.close()


def row(page: str, number: int) -> str:
    return page.partition(f'<tr id="lm-{number}">')[2].partition("</tr>")[0]


def test_each_answer_stands_with_what_came_of_it_what_was_refused_and_its_cost(client: TestClient) -> None:
    page = client.get("/language-model?campaign=C-1").text
    assert "3 questions to a language model, 1 without an answer." in page
    assert 'href="/hypotheses/H-001"' in row(page, 1)
    assert "It is below 1." in row(page, 1)
    assert "$0.250" in row(page, 1)
    assert "The endpoint says 503." in row(page, 2)
    assert "not known" in row(page, 2)
    assert "at most 5,800 more" in row(page, 2)
    assert "at most $0.0625 more" in row(page, 2)
    assert "more tokens ($0.0625) that were not told" in page
    assert "no hypothesis" in row(page, 3)
    assert page.index('id="lm-3"') < page.index('id="lm-1"')
    assert "autoinfer model --campaign C-1" in page


def test_one_answer_is_shown_word_for_word_as_text(client: TestClient) -> None:
    page = client.get("/language-model?answer=1").text
    assert "What next?" in page
    assert "<script>alert" not in page
    assert "autoinfer model 1" in page
    assert client.get("/language-model.json?answer=1").json()["whole"]["answer"] == HOSTILE
    missing = client.get("/language-model?answer=9")
    assert missing.status_code in (404, 422)
    assert "There is no answer 9 of a language model." in missing.text


def test_pages_and_twins_tell_the_same(client: TestClient) -> None:
    first = client.get("/language-model.json?campaign=C-1&limit=2").json()
    assert ([each["id"] for each in first["items"]], first["older"]) == ([3, 2], 2)
    rest = client.get("/language-model.json?campaign=C-1&limit=2&before=2").json()
    assert ([each["id"] for each in rest["items"]], rest["older"]) == ([1], None)
    told = list(csv.DictReader(io.StringIO(client.get("/language-model.csv?campaign=C-1").text)))
    assert [each["usd"] for each in told] == ["0.125", "", "0.25"]


def test_a_campaign_that_asked_nothing_leads_to_the_one_that_did(client: TestClient) -> None:
    page = client.get("/language-model").text
    assert "No language model was asked." in page
    assert 'href="/language-model?campaign=C-1"' in page
    assert "hy-model" not in client.get("/hypotheses").text


def test_hypotheses_and_costs_lead_to_it_with_what_is_known_of_its_price(client: TestClient) -> None:
    assert "3 questions, 1 without an answer" in client.get("/hypotheses?campaign=C-1").text
    assert 'href="/language-model?answer=1"' in client.get("/hypotheses/H-001").text
    [asked] = client.get("/costs.json").json()["questions"]
    assert (asked["asked"], asked["failed"], asked["priced"], asked["usd"]) == (3, 1, 2, 0.375)
    assert (asked["prompt_tokens"], asked["answer_tokens"]) == (1600, 400)
    assert (asked["untold_tokens"], asked["untold_usd"]) == (5800, 0.0625)
    page = client.get("/costs").text
    assert "$0.375 of questions to a language model" in page
    assert "of 2 of them" in page
    assert "at most $0.0625 more" in page
    assert "language model,C-1 a-model" in client.get("/costs.csv").text
    assert client.get("/costs.json?campaign=C-2").json()["questions"] == []
