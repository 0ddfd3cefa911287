"""A failure that the engine's words put down to a value is told of whatever sets that value."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.asking.put_down import failures_put_down
from agent.asking.why_not import what_rules_out
from db.models import Campaign, Verdict
from db.states import VerdictOutcome
from knowledge.asking.answer import Answer
from knowledge.asking.why_not import Failure
from knowledge.graph_building import build_graph
from tests.history.campaign_history import History
from tests.unit.agent.asking.test_answers import allowed_there

TITLE = "Failures put down to what it sets"
WRAPPER, THREADS = {"serving.compile": "cpp_wrapper"}, {"serving.threads": 8}
PUT_DOWN = " The candidate of E-0001 did not run, which was put down to serving.compile=cpp_wrapper."


@pytest.fixture
def failed(tmp_path: Path) -> Iterator[History]:
    """H-001 sets two knobs and did not run, which was put down to the first; H-002 sets that one alone."""
    history = History(tmp_path)
    both = history.propose({**WRAPPER, **THREADS}, claim="Both are faster.")
    history.judge(both, VerdictOutcome.INFEASIBLE, effect=None, reason="It did not start.")
    history.propose(WRAPPER, claim="The wrapper is faster.", rank=1, rank_reason="It pays.")
    history.propose(THREADS, claim="Eight threads are faster.", rank=2, rank_reason="It pays less.")
    with history.database.write() as session:
        verdict = session.query(Verdict).one()
        verdict.judge = {**verdict.judge, "blames": {"serving.compile": None}}
    yield history
    history.close()


def why(history: History, *words: str) -> Answer:
    with history.database.read() as session:
        return what_rules_out(session, build_graph(session), words, None, allowed_there)


def told(answer: Answer) -> list[str | None]:
    return [row.id for each in answer.sections if each.title == TITLE for row in each.rows]


def test_what_sets_the_value_by_itself_is_told_of_it_and_what_does_not_is_not(failed: History) -> None:
    alone = why(failed, "H-002")
    assert alone.sentence == f"H-002 is not ruled out: it is queued.{PUT_DOWN}"
    assert told(alone) == ["E-0001"]
    assert why(failed, "serving.compile=cpp_wrapper").sentence.endswith(PUT_DOWN)
    for other in ("H-003", "serving.threads=8", "serving.compile=default"):
        answer = why(failed, other)
        assert PUT_DOWN not in answer.sentence
        assert told(answer) == []
    assert told(why(failed, "H-001")) == [], "its own verdict says so already"


def test_all_that_a_failure_is_put_down_to_has_to_be_there(failed: History) -> None:
    with failed.database.write() as session:
        verdict = session.query(Verdict).one()
        verdict.judge = {**verdict.judge, "blames": {"serving.compile": None, "serving.threads": None}}
    with failed.database.read() as session:
        assert failures_put_down(session, 1, WRAPPER) == ()
        (found,) = failures_put_down(session, 1, {**WRAPPER, **THREADS})
        assert found == Failure("E-0001", "serving.compile=cpp_wrapper, serving.threads=8")


@pytest.mark.parametrize("column", ["target", "model_fingerprint"])
def test_a_failure_on_another_model_or_target_says_nothing(failed: History, column: str) -> None:
    number = failed.start("other")
    with failed.database.write() as session:
        setattr(session.get_one(Campaign, number), column, "another")
    with failed.database.read() as session:
        assert failures_put_down(session, 1, WRAPPER)
        assert failures_put_down(session, number, WRAPPER) == ()
