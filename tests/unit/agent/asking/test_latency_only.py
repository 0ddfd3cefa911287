"""What an answer names that rests on made-up weights is marked: hypotheses and experiments, in rows and
sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from agent.asking.of_the_graph import what_is_known, what_led_to
from agent.asking.why_not import what_rules_out
from db.models import Campaign, Experiment
from db.states import VerdictOutcome
from knowledge.asking.answer import Answer, Row
from knowledge.graph.building import build_graph
from tests.history.campaign_history import History
from tests.unit.agent.asking.test_answers import allowed_there

THREADS = {"serving.threads": 1}


@pytest.fixture
def two(tmp_path: Path) -> Iterator[History]:
    """H-001 and E-0001 in a campaign of real weights, H-002, E-0002 and H-003 in one of made-up ones."""
    history = History(tmp_path)
    history.judge(history.propose(THREADS), VerdictOutcome.SUPPORTED, effect=(-0.1, -0.12, -0.08))
    made_up = history.start("made up")
    asked = history.propose(THREADS, campaign_id=made_up)
    history.judge(asked, VerdictOutcome.SUPPORTED, effect=(-0.2, -0.22, -0.18))
    history.propose({"serving.threads": 4}, campaign_id=made_up, rank=1, rank_reason="It pays.")
    with history.database.write() as session:
        campaign, experiment = session.get_one(Campaign, 2), session.get_one(Experiment, 2)
        campaign.spec = {**campaign.spec, "weights": "dummy"}
        experiment.plan = {**experiment.plan, "latency_only": True}
    yield history
    history.close()


def rows_of(rows: Sequence[Row]) -> Iterator[Row]:
    for each in rows:
        yield each
        yield from rows_of(each.rows)


def marked(answer: Answer) -> dict[str, bool]:
    """Whether the rows of each hypothesis and experiment are marked, which they are alike."""
    found: dict[str, bool] = {}
    for row in (row for each in answer.sections for row in rows_of(each.rows)):
        if row.id is not None and row.id[:2] in ("H-", "E-"):
            assert found.setdefault(row.id, row.latency_only) is row.latency_only
    return found


def test_what_is_known_marks_tests_and_what_waits_and_the_test_that_its_sentence_names(two: History) -> None:
    with two.database.read() as session:
        answer = what_is_known(session, build_graph(session), "serving.threads", None)
    found = marked(answer)
    assert found["E-0001"] is False
    assert (found["E-0002"], found["H-003"]) == (True, True)
    assert "The largest supported effect is that of E-0002." in answer.sentence
    assert answer.sentence.endswith(" E-0002 is latency only.")


def test_what_led_to_something_and_what_rules_it_out_mark_it_too(two: History) -> None:
    with two.database.read() as session:
        graph = build_graph(session)
        led = {each: what_led_to(session, graph, each) for each in ("E-0001", "E-0002", "H-003")}
        why = what_rules_out(session, graph, ["H-002"], None, allowed_there)
    assert not any(marked(led["E-0001"]).values())
    assert "latency only" not in led["E-0001"].sentence
    assert marked(led["E-0002"])["H-002"] is True
    assert "E-0002" in led["E-0002"].sentence.partition(" latency only")[0]
    assert led["H-003"].sentence.endswith(" H-003 is latency only.")
    assert marked(why)["E-0002"] is True
