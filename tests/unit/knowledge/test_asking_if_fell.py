"""What would change if a finding or a verdict fell: bests, findings, what stands on it."""

from __future__ import annotations

from db import events
from db.event_kinds import EventKind
from db.labels import Noun, format_label, parse_label_of
from db.models import Experiment, Hypothesis
from db.states import ExperimentKind, ExperimentState, VerdictOutcome
from knowledge.asking.if_fell import BEGUN_FROM, fall, if_fell
from knowledge.graph.building import build_graph
from knowledge.graph.typed_graph import neighbourhood
from knowledge.queries.around import around
from tests.history.campaign_history import SPACE, History
from tests.unit.knowledge.asked import FASTER, chain, graph_of, ids, rows

__all__ = ["chain"]  # the fixture


def test_what_falls_with_a_finding_is_not_told_once_more_as_building_on_it(history: History) -> None:
    number = history.propose({"serving.threads": 1})
    history.judge(number, VerdictOutcome.SUPPORTED)
    with history.database.write() as session:
        row = session.get_one(Hypothesis, number)
        row.change = {**row.change, "builds_on": ["F-001"]}
    graph = graph_of(history)
    found = fall(graph, "F-001")
    assert found.hypotheses == found.building == ("H-001",)
    answer = if_fell(graph, "F-001", found)
    assert "rest on it" not in answer.sentence
    assert [each.id for section in answer.sections for each in section.rows].count("H-001") == 1


def test_a_campaign_that_began_with_a_finding_of_others_hangs_together_with_it(chain: History) -> None:
    other = chain.start("another")
    data = {"weight": 0.62, "outcomes": 2, "campaigns": {"C-1": 0.62}, "findings": ["F-001"], "judged": 3}
    with chain.database.write() as session:
        for weight in (0.8, 0.62):
            told = {**data, "weight": weight}
            events.append(session, EventKind.CAMPAIGN_CARRIED, "It began.", campaign_id=other, data=told)
    graph, label = graph_of(chain), f"C-{other}"
    assert graph.edges[label, "F-001", "rests_on"]["weight"] == 0.62
    answer = if_fell(graph, "F-001", fall(graph, "F-001"))
    assert ids(rows(answer, "Campaigns")) == [label]
    assert f"{label} began with it" in answer.sentence
    assert rows(answer, "Campaigns")[0].because == "all that was carried over counts 62 % there now"
    with chain.database.read() as session:
        assert "F-001" in build_graph(session, other), "its own graph holds what it rests on"
        assert label in around(session, "F-001", 1).graph
        assert set(around(session, label, 1).graph) == set(neighbourhood(graph, label))


def test_if_a_verdict_fell_the_best_what_stands_on_it_and_its_finding_would_go(chain: History) -> None:
    graph = graph_of(chain)
    found = fall(graph, "E-0001")
    assert found.hypotheses == ("H-001",)
    assert found.on_top == ("H-002", "H-003")
    assert found.findings == ("F-001",)
    assert found.bests == (("C-1", "E-0002"),)
    answer = if_fell(graph, "E-0001", fall(graph, "E-0001"))
    assert "C-1 would have another best" in answer.sentence
    assert ids(rows(answer, "Hypotheses")) == ["H-003", "H-002"]  # what waits first
    assert fall(graph, "F-001") == fall(graph, "H-001")
    assert fall(graph, "H-004").experiments == ()
    assert "has no verdict yet" in if_fell(graph, "H-004", fall(graph, "H-004")).sentence


def test_a_baseline_is_not_told_as_a_verdict_on_which_nothing_rests(chain: History) -> None:
    label = format_label(Noun.EXPERIMENT, chain.start_testing(4))
    for state, said in (
        (ExperimentState.CANCELLED, f"{label} has no verdict yet, so nothing rests on it."),
        (ExperimentState.DONE, BEGUN_FROM.format(subject=label)),
    ):
        with chain.database.write() as session:
            row = session.get_one(Experiment, parse_label_of(Noun.EXPERIMENT, label))
            row.kind, row.state, row.hypothesis_id = ExperimentKind.BASELINE, state, None
        graph = graph_of(chain)
        answer = if_fell(graph, label, fall(graph, label))
        assert answer.sentence == said
        assert rows(answer, "Verdicts that would fall") == ()


def test_what_would_no_longer_be_supported_or_be_open_again_is_told(full_history: History) -> None:
    graph = graph_of(full_history)

    def decided(subject: str) -> list[tuple[str | None, str | None]]:
        found = rows(if_fell(graph, subject, fall(graph, subject)), "Hypotheses that it decides")
        return [(each.relation, each.id) for each in found]

    assert decided("F-001") == [("no longer supported", "H-001")]
    assert "H-001 would no longer be supported" in if_fell(graph, "F-001", fall(graph, "F-001")).sentence
    assert decided("F-002") == decided("E-0002") == [("open again", "H-002")]
    assert "; H-002 would be open again" in if_fell(graph, "E-0002", fall(graph, "E-0002")).sentence
    assert decided("E-0003") == [("open again", "H-003")]
    assert "; it would be open again" in if_fell(graph, "H-003", fall(graph, "H-003")).sentence
    assert decided("E-0004") == []
    full_history.judge(2, VerdictOutcome.REFUTED, reproduces=2)
    graph = graph_of(full_history)
    assert decided("E-0002") == []
    assert decided("H-002") == [("open again", "H-002")]


def test_what_another_verdict_supports_too_does_not_fall(chain: History) -> None:
    chain.judge(1, VerdictOutcome.SUPPORTED, reproduces=1)
    found = fall(graph_of(chain), "E-0001")
    assert (found.hypotheses, found.on_top, found.bests) == ((), (), ())
    assert found.weaker == ("F-001",)


def test_no_chain_leads_on_over_what_was_not_supported(chain: History) -> None:
    """Only a supported hypothesis leads anywhere: what is measured against the candidate of one that waits,
    or was refuted, has a control of its own, such as a campaign's question names it."""
    aside = SPACE.with_change(FASTER, {"serving.compile": "default"})
    refuted = chain.propose({"serving.compile": "default"}, control=FASTER)
    chain.judge(refuted, VerdictOutcome.REFUTED)
    waiting = chain.propose({"serving.dtype": "bfloat16"}, control=aside)
    back = SPACE.with_change(aside, {"serving.dtype": "bfloat16"})
    chain.propose({"serving.compile": "off"}, control=back)
    assert (refuted, waiting) == (5, 6)
    graph = graph_of(chain)
    assert fall(graph, "H-001").on_top == ("H-002", "H-005", "H-003")
