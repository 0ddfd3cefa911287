"""`autoinfer model` and what `show` and `doctor` say of a language model."""

import json
from pathlib import Path

import pytest
from sqlalchemy import select

from cli.health.check_result import Verdict
from cli.health.checks import check_language_model
from configs.settings import Settings
from db.models import Hypothesis, ModelAnswer
from db.session import open_database
from tests.integration.cli.command import Autoinfer
from tests.new_database import database_url
from tests.simulated.chat_server import MODEL, chat_server

HOSTILE = "[bold]not a style[/bold] <script> \\x1b[2J"


@pytest.fixture
def answered(with_history: Autoinfer, tmp_path: Path) -> Autoinfer:
    """A campaign whose first hypothesis is of a language model's answer."""
    database = open_database(database_url(tmp_path / "data"))
    with database.write() as session:
        session.add(
            ModelAnswer(
                campaign_id=1,
                base_url="http://127.0.0.1:8000/v1",
                model="a-model",
                form="json_schema",
                prompt="What next?",
                prompt_digest="0" * 64,
                answer=HOSTILE,
                attempts=2,
                counted_tokens=900,
                prompt_tokens=None,
                answer_tokens=None,
                usd=0.25,
                wall_s=1.5,
                outcome={"proposed": ["a=1"], "refused": [{"what": "b=2", "reason": "No knob."}]},
            )
        )
        first = session.scalars(select(Hypothesis).order_by(Hypothesis.id)).first()
        assert first is not None
        first.change = {**first.change, "from_model": {"answer": 1, "place": 0, "builds_on": ["F-001"]}}
    database.close()
    return with_history


def test_answers_are_listed_with_their_cost_and_what_was_refused(answered: Autoinfer) -> None:
    out = answered("model").out
    assert "1 question, 0 without an answer; 1 hypothesis came of them, 1 refused; 900 tokens" in out
    assert "$0.250" in out
    assert "H-001" in out
    assert "b=2: No knob." in out
    told = json.loads(answered("model --json").out)
    assert told["asked"]["usd"] == 0.25
    assert told["answers"][0]["hypotheses"] == ["H-001"]


def test_one_answer_is_shown_word_for_word(answered: Autoinfer) -> None:
    out = answered("model 1").out
    assert "What next?" in out
    assert HOSTILE in out
    assert "~900 + ?" in out
    assert json.loads(answered("model 1 --json").out)["answer"] == HOSTILE


def test_a_hypothesis_names_the_answer_that_it_came_of(answered: Autoinfer) -> None:
    out = answered("show H-1").out
    assert "autoinfer model 1" in out
    assert "builds on" in out
    assert "The language model was put 1 question" in " ".join(answered("summary").out.split())


def test_an_answer_that_is_not_there_is_said_so(with_history: Autoinfer) -> None:
    done = with_history("model 7")
    assert done.code == 2
    assert "There is no answer 7 of a language model." in done.err
    assert "No language model was asked in C-1" in with_history("model").out


def settings(tmp_path: Path, url: str | None, model: str | None = MODEL) -> Settings:
    return Settings(data_dir=tmp_path, llm_base_url=url, llm_model=model)


def test_the_doctor_asks_which_models_are_served(tmp_path: Path) -> None:
    with chat_server(tmp_path / "chat", [{"content": "{}"}]) as server:
        assert check_language_model(settings(tmp_path, server.base_url)).verdict is Verdict.OK
        other = check_language_model(settings(tmp_path, server.base_url, "another"))
    assert (other.verdict, other.advice) == (Verdict.WARN, "Correct AUTOINFER_LLM_MODEL.")
    assert other.found.endswith(f"it serves {MODEL}")


def test_the_doctor_says_what_is_wrong_and_nothing_of_what_is_not_wanted(tmp_path: Path) -> None:
    assert check_language_model(settings(tmp_path, None, None)).verdict is Verdict.OK
    gone = check_language_model(settings(tmp_path, "http://127.0.0.1:9/v1"))
    assert gone.verdict is Verdict.WARN
    assert "Connection refused" in gone.found
    unnamed = check_language_model(settings(tmp_path, "http://127.0.0.1:9/v1", None))
    assert unnamed.found == "No model is named to ask at http://127.0.0.1:9/v1."
