"""A failure that the engine's words put down to a value is told of whatever sets that value."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.asking import put_down
from agent.asking.put_down import failures_put_down
from agent.asking.why_not import what_rules_out
from db.models import Campaign, Verdict
from db.states import VerdictOutcome
from knowledge.asking.answer import Answer
from knowledge.asking.objections import Failure
from knowledge.graph.building import build_graph
from tests.history.campaign_history import History
from tests.unit.agent.asking.test_answers import allowed_there

TITLE = "Failures put down to what it sets"
WRAPPER, THREADS = {"serving.compile": "cpp_wrapper"}, {"serving.threads": 8}
PUT_DOWN = " The candidate of E-0001 did not run, which was put down to serving.compile=cpp_wrapper."
OF_OTHERS = (
    " With other versions than run here (torch 2.13.0 → 2.14.0) the candidate of E-0001 did not run, which "
    "was put down to serving.compile=cpp_wrapper; that rules nothing out here."
)


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
        assert found == Failure("E-0001", "serving.compile=cpp_wrapper, serving.threads=8", "torch 2.13.0")


def test_a_failure_with_other_versions_is_told_with_these_and_rules_nothing_out(failed: History) -> None:
    failed.judge(3, VerdictOutcome.REFUTED, effect=(0.01, 0.005, 0.015), versions={"torch": "2.14.0"})
    answer = why(failed, "H-002")
    assert answer.sentence == f"H-002 is not ruled out: it is queued.{OF_OTHERS}"
    (row,) = [row for each in answer.sections if each.title == TITLE for row in each.rows]
    assert (row.id, row.relation) == ("E-0001", "did not run with other versions")
    assert row.because == "It did not start. It ran with torch 2.13.0, and here runs torch 2.14.0."


def test_a_failure_with_the_versions_of_here_is_told_before_newer_ones_with_others(
    failed: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = {"torch": "2.14.0"}
    for threads in (1, 4):
        other = failed.propose({**WRAPPER, "serving.threads": threads}, claim=f"{threads} are faster.")
        failed.judge(other, VerdictOutcome.INFEASIBLE, effect=None, versions=later)
    failed.judge(3, VerdictOutcome.REFUTED, effect=(0.01, 0.005, 0.015))  # here run those of before again
    with failed.database.write() as session:
        for verdict in session.query(Verdict).filter(Verdict.outcome == VerdictOutcome.INFEASIBLE):
            verdict.judge = {**verdict.judge, "blames": {"serving.compile": None}}
    monkeypatch.setattr(put_down, "MOST", 2)
    with failed.database.read() as session:
        here, other_versions = failures_put_down(session, 1, WRAPPER)
    assert (here.experiment, here.moved) == ("E-0001", ())
    assert (other_versions.experiment, other_versions.versions) == ("E-0003", "torch 2.14.0")
    assert [str(each) for each in other_versions.moved] == ["torch 2.14.0 → 2.13.0"]
    assert why(failed, "H-002").sentence.endswith(PUT_DOWN)


@pytest.mark.parametrize("column", ["target", "model_fingerprint"])
def test_a_failure_on_another_model_or_target_says_nothing(failed: History, column: str) -> None:
    number = failed.start("other")
    with failed.database.write() as session:
        setattr(session.get_one(Campaign, number), column, "another")
    with failed.database.read() as session:
        assert failures_put_down(session, 1, WRAPPER)
        assert failures_put_down(session, number, WRAPPER) == ()
