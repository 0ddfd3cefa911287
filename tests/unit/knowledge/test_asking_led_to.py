"""What led to a hypothesis, an experiment or a finding, and to nothing that came later."""

from __future__ import annotations

import pytest

from db.models import Hypothesis
from db.states import VerdictOutcome
from knowledge.asking.if_fell import fall
from knowledge.asking.known import known
from knowledge.asking.led_to import led_to
from knowledge.graph.typed_graph import neighbourhood
from knowledge.queries.around import around
from knowledge.queries.claims.hypothesis_detail import hypothesis_detail
from tests.history.campaign_history import History
from tests.unit.knowledge.asked import chain, graph_of, ids, rows

__all__ = ["chain"]  # the fixture


def test_what_led_to_a_hypothesis_goes_back_over_the_best_then(chain: History) -> None:
    answer = led_to(graph_of(chain), "H-003")
    (best,) = rows(answer, "Where it comes from")
    assert (best.relation, best.id) == ("on top of the best at that time", "H-002")
    assert "Proposed by rules. Fewer bytes move." in str(best.because)
    assert ids(best.rows) == ["H-001"]
    (why,) = rows(answer, "Why it was proposed")
    assert why.text == "Fewer bytes move."
    finding = led_to(graph_of(chain), "F-002")
    assert "Why it was proposed" not in {each.title for each in finding.sections}
    (test,) = rows(finding, "Where it comes from")
    assert test.id == "E-0002"
    assert ids(test.rows) == ["H-002"]


def test_who_proposed_it_and_where_it_ran_are_told_in_the_words_of_pages(history: History) -> None:
    asked = history.propose({"serving.threads": 1}, proposer="questions")
    history.judge(asked, VerdictOutcome.SUPPORTED)
    answer = led_to(graph_of(history), "F-001")
    (test,) = rows(answer, "Where it comes from")
    assert test.text == "a test of H-001 on Example CPU (2 cores)"
    (tested,) = test.rows
    assert str(tested.because).startswith("Proposed by the campaign. ")
    assert "proposers on the way: the campaign" in answer.sentence


def test_a_rerun_and_another_campaign_led_to_a_finding_each_by_its_own_word(history: History) -> None:
    hypothesis = history.propose({"serving.threads": 1})
    first = history.judge(hypothesis, VerdictOutcome.SUPPORTED).experiment_id
    history.judge(hypothesis, VerdictOutcome.SUPPORTED, reproduces=first)
    other = history.start("other")
    history.judge(history.propose({"serving.threads": 1}, campaign_id=other), VerdictOutcome.SUPPORTED)
    graph = graph_of(history)
    said = rows(led_to(graph, "F-001"), "Where it comes from")
    assert [(each.relation, each.id) for each in said] == [
        ("supports it", "E-0001"),
        ("reproduces it", "E-0002"),
        ("replicates it", "E-0003"),
    ]
    of_rerun = rows(led_to(graph, "E-0002"), "Where it comes from")
    assert [(each.relation, each.id) for each in of_rerun] == [("tests", "H-001"), ("runs again", "E-0001")]
    assert fall(graph, "F-001").experiments == ("E-0001", "E-0002", "E-0003")
    assert fall(graph, "E-0001").weaker == ("F-001",)
    assert "replicated: 3 verdicts for it" in str(
        rows(known(graph, "serving.threads", None, ()), "Findings")[0].because
    )


@pytest.mark.parametrize(
    "kept", [{"builds_on": ["F-001"]}, {"from_model": {"builds_on": ["F-001", "F-9", "<b>"]}}]
)
def test_what_builds_on_a_finding_leads_back_to_it_and_rests_on_it(
    chain: History, kept: dict[str, object]
) -> None:
    with chain.database.write() as session:
        row = session.get_one(Hypothesis, 4)
        row.change = {**row.change, **kept}
    graph = graph_of(chain)
    assert graph.has_edge("H-004", "F-001", key="builds_on")
    assert rows(led_to(graph, "H-004"), "Where it comes from")[0].relation == "builds on"
    assert fall(graph, "F-001").building == ("H-004",)
    with chain.database.read() as session:
        assert hypothesis_detail(session, 4).builds_on[0] == "F-001"
    with chain.database.read() as session:
        assert "H-004" in around(session, "F-001", 1).graph
        assert set(around(session, "H-004", 1).graph) == set(neighbourhood(graph, "H-004"))


def test_what_was_measured_after_a_hypothesis_did_not_lead_to_it(history: History) -> None:
    first = history.propose({"serving.threads": 1})
    history.judge(first, VerdictOutcome.SUPPORTED)
    other, third = history.start("other"), history.start("third")
    again = history.propose({"serving.threads": 1}, campaign_id=other)
    later = history.propose({"serving.threads": 1}, campaign_id=third)
    for number in (again, later):
        history.judge(number, VerdictOutcome.SUPPORTED)
    with history.database.write() as session:
        row = session.get_one(Hypothesis, again)
        row.change = {**row.change, "builds_on": ["F-001"]}
    graph = graph_of(history)
    finding, *_ = rows(led_to(graph, "H-002"), "Where it comes from")
    assert (finding.relation, finding.id, ids(finding.rows)) == ("builds on", "F-001", ["E-0001"])
    of_finding = rows(led_to(graph, "F-001"), "Where it comes from")
    assert ids(of_finding) == ["E-0001", "E-0002", "E-0003"]
