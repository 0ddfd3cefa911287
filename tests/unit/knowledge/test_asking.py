"""What is asked of the graph is answered from what was written, down to samples, and what is not there is
refused with the nearest that is."""

from __future__ import annotations

import pytest

from configs.errors import UsageError
from db import events
from db.event_kinds import EventKind
from db.labels import Noun, format_label, parse_label_of
from db.models import Campaign, Experiment, Hypothesis
from db.states import ExperimentKind, ExperimentState, HypothesisState, VerdictOutcome
from knowledge.asking.answer import Answer, Row, some
from knowledge.asking.if_fell import BEGUN_FROM, fall, if_fell
from knowledge.asking.known import known
from knowledge.asking.led_to import led_to
from knowledge.asking.walking import label_in
from knowledge.asking.why_not import Mark, Objection, why_not_finding, why_not_hypothesis, why_not_values
from knowledge.findings.told import Telling, tell
from knowledge.findings.verdict_fact import Saying
from knowledge.graph import Graph, neighbourhood, new_graph
from knowledge.graph_building import build_graph
from knowledge.queries.around import around
from knowledge.queries.hypothesis_detail import hypothesis_detail
from knowledge.queries.view import EffectView
from tests.history.campaign_history import BASE, SPACE, TARGET, History

KNOBS = [*(knob.name for knob in SPACE.knobs), "quantization.bits"]
FASTER = SPACE.with_change(BASE, {"serving.threads": 1})
BOTH_BUT_THREADS = SPACE.with_change(BASE, {"serving.dtype": "bfloat16"})
BOTH = SPACE.with_change(FASTER, {"serving.dtype": "bfloat16"})


def graph_of(history: History) -> Graph:
    with history.database.read() as session:
        return build_graph(session)


def rows(answer: Answer, title: str) -> tuple[Row, ...]:
    return next(each.rows for each in answer.sections if each.title == title)


def ids(found: tuple[Row, ...]) -> list[str | None]:
    return [each.id for each in found]


def on_the_baseline(history: History, configuration_id: int) -> None:
    with history.database.write() as session:
        session.get_one(Campaign, 1).baseline_configuration_id = configuration_id


@pytest.fixture
def chain(history: History) -> History:
    """H-1 is supported, H-2 on top of it too and the best, H-3 waits on top of that, H-4 beside them."""
    one = history.propose({"serving.threads": 1}, claim="One thread is faster.")
    first = history.judge(one, VerdictOutcome.SUPPORTED)
    two = history.propose({"serving.dtype": "bfloat16"}, control=FASTER, parents=[one])
    second = history.judge(two, VerdictOutcome.SUPPORTED)
    history.propose({"serving.compile": "default"}, control=BOTH, parents=[two])
    history.propose({"serving.threads": 4}, claim="Four threads are faster.")
    with history.database.write() as session:
        campaign = session.get_one(Campaign, 1)
        campaign.best_experiment_id = second.experiment_id
    graph = graph_of(history)
    on_the_baseline(history, graph.nodes["H-001"]["control"])
    assert first.experiment_id == 1
    return history


def test_what_is_known_of_a_knob_has_findings_values_failures_and_what_waits(full_history: History) -> None:
    answer = known(graph_of(full_history), "serving.threads", "cpu", KNOBS)
    assert ids(rows(answer, "Findings")) == ["F-001"]
    values = {each.text: each for each in rows(answer, "Values that were tried")}
    before = BASE["serving.threads"]
    assert set(values) == {f"{before} → 1", f"{before} → 4"}
    supported = next(each for each in values.values() if each.state == "supported")
    (test,) = supported.rows
    assert test.id == "E-0001"
    assert test.effect is not None
    assert any(
        "8 samples of TPOT in the 4 launches that the judge compares" in each.text for each in test.rows
    )
    assert ids(rows(answer, "Still to come")) == ["H-006"]
    assert "1 supported" in answer.sentence
    broken = known(graph_of(full_history), "serving.compile", None, KNOBS)
    (infeasible,) = rows(broken, "What does not run")
    assert infeasible.id == "E-0003"
    assert infeasible.rows[0].text == "no C++ compiler was found"


def test_a_knob_that_nothing_changed_and_one_that_there_is_not(full_history: History) -> None:
    graph = graph_of(full_history)
    assert "no hypothesis changed it" in known(graph, "quantization.bits", None, KNOBS).sentence
    with pytest.raises(UsageError) as refused:
        known(graph, "threads", None, KNOBS)
    assert "Did you mean serving.threads?" in str(refused.value.hint)
    with pytest.raises(UsageError, match="Nothing is known of hardware with 'H200'") as there:
        known(graph, "serving.threads", "H200", KNOBS)
    assert TARGET in str(there.value.hint)


def test_what_was_measured_elsewhere_is_told_apart(full_history: History) -> None:
    full_history.judge(6, VerdictOutcome.REFUTED, target="gpu:NVIDIA L4:24 GB", effect=(0.1, 0.05, 0.15))
    graph = graph_of(full_history)
    answer = known(graph, "serving.threads", "Example", KNOBS)
    assert [each.text for each in rows(answer, "On other hardware")] == ["gpu:NVIDIA L4:24 GB"]
    there = known(graph, "serving.threads", "l4", KNOBS)
    assert "1 test: 1 refuted" in there.sentence


def test_what_is_to_come_is_told_of_the_hardware_that_was_asked_for(history: History) -> None:
    first = history.judge(history.propose({"serving.threads": 1}), VerdictOutcome.SUPPORTED)
    history.propose({"serving.threads": 4})
    confirms = history.propose({"serving.threads": 8})
    there = "gpu:NVIDIA L4:24 GB"
    with history.database.write() as session:
        row = session.get_one(Hypothesis, confirms)
        row.target, row.confirms_experiment_id = "modal:L4", first.experiment_id
    before = known(graph_of(history), "serving.threads", "L4", KNOBS)
    assert before.sentence == "serving.threads on L4: no test changed it; no finding; 1 to come."
    (waits,) = rows(before, "Still to come")
    assert (waits.id, waits.relation) == ("H-003", "to be confirmed on modal:L4")
    other = next(each for each in before.sections if each.title == "What it was tried with")
    assert other.none == "Nothing was tried there."
    (elsewhere,) = rows(before, "On other hardware")
    assert elsewhere.text == TARGET
    assert elsewhere.because == "1 finding; 1 test: 1 supported; 1 to come"
    here = known(graph_of(history), "serving.threads", "Example", KNOBS)
    assert ids(rows(here, "Still to come")) == ["H-002"]
    assert ids(rows(known(graph_of(history), "serving.threads", None, KNOBS), "Still to come")) == [
        "H-002",
        "H-003",
    ]
    history.judge(first.hypothesis_id, VerdictOutcome.SUPPORTED, reproduces=1, target=there)
    by_its_name = known(graph_of(history), "serving.threads", "NVIDIA L4", KNOBS)
    assert ids(rows(by_its_name, "Still to come")) == ["H-003"]


def test_a_device_of_this_machine_is_known_by_what_ran_there(history: History) -> None:
    there = "gpu:NVIDIA A10:24 GB"
    for threads in (1, 4):
        number = history.propose({"serving.threads": threads})
        with history.database.write() as session:
            session.get_one(Hypothesis, number).target = "cuda:1"
    history.judge(1, VerdictOutcome.SUPPORTED, target=there)
    answer = known(graph_of(history), "serving.threads", "A10", KNOBS)
    assert ids(rows(answer, "Still to come")) == ["H-002"]


def test_a_refuted_hypothesis_is_ruled_out_by_its_verdict_down_to_its_samples(full_history: History) -> None:
    answer = why_not_hypothesis(graph_of(full_history), "H-002", [], [])
    assert answer.sentence == "H-002 is ruled out: E-0002 found it refuted. It is 20 % slower instead."
    (verdict,) = rows(answer, "Its verdicts")
    assert "samples" in verdict.rows[0].text
    assert ids(rows(answer, "Findings against it")) == ["F-002"]


def test_a_finding_against_something_is_told_however_often_it_was_confirmed_and_one_for_it_is_not(
    full_history: History,
) -> None:
    full_history.judge(2, VerdictOutcome.REFUTED, effect=(0.2, 0.15, 0.25), reproduces=2)
    full_history.judge(1, VerdictOutcome.SUPPORTED, reproduces=1)
    with full_history.database.write() as session:
        written = Telling("It is of no use.", ("serving.dtype=bfloat16",), says=Saying.DOES_NOT_HELP)
        told = f"F-{tell(session, written, 1).id:03}"
    graph = graph_of(full_history)
    against = why_not_values(graph, {"serving.dtype": "bfloat16"}, [], [])
    assert ids(rows(against, "Findings against it")) == [told, "F-002"]
    assert ids(rows(why_not_hypothesis(graph, "H-002", [], []), "Findings against it")) == ["F-002"]
    assert rows(why_not_hypothesis(graph, "H-001", [], []), "Findings against it") == ()


def test_what_is_not_ruled_out_is_said_and_what_was_never_tried(full_history: History) -> None:
    graph = graph_of(full_history)
    assert (
        "is not ruled out: it is supported by E-0001" in why_not_hypothesis(graph, "H-001", [], []).sentence
    )
    assert "is not ruled out: it is queued" in why_not_hypothesis(graph, "H-006", [], []).sentence
    never = why_not_values(graph, {"serving.threads": "16"}, [], [])
    assert "never tried, and nothing known here forbids it" in never.sentence
    none = why_not_values(graph, {"quantization.bits": "4"}, [], [])
    assert "never tried" in none.sentence


def test_bans_and_legality_rule_out_what_no_verdict_does(full_history: History) -> None:
    graph = graph_of(full_history)
    values = {"serving.threads": "16"}
    illegal = why_not_values(graph, values, [Objection("The target has 2 cores for us.")], [])
    assert "ruled out before anything is run: The target has 2 cores for us." in illegal.sentence
    banned = why_not_values(graph, values, [], [Objection("Nothing of threads.", "D-1")])
    assert "ruled out by you" in banned.sentence
    assert ids(rows(banned, "Your steering")) == ["D-1"]
    waits = why_not_hypothesis(graph, "H-006", [], [Objection("Nothing of threads.", "D-1")])
    assert "can't be tested as things are" in waits.sentence


def test_a_value_with_verdicts_on_both_sides_is_not_ruled_out_everywhere(full_history: History) -> None:
    again = full_history.propose({"serving.dtype": "bfloat16"}, control=FASTER)
    full_history.judge(again, VerdictOutcome.SUPPORTED)
    answer = why_not_values(graph_of(full_history), {"serving.dtype": "bfloat16"}, [], [])
    assert "is not ruled out everywhere: against it H-002, for it H-008" in answer.sentence


def test_a_knob_of_which_something_waits_for_its_test_is_not_ruled_out_everywhere(history: History) -> None:
    removed = {"pruning.method": "depth", "pruning.layers_removed": 1}
    history.judge(history.propose(removed), VerdictOutcome.REFUTED)
    alone = why_not_values(graph_of(history), {"pruning.method": None}, [], [])
    assert alone.sentence.startswith("pruning.method is ruled out by H-001: ")
    history.propose({**removed, "pruning.layers_removed": 2})
    answer = why_not_values(graph_of(history), {"pruning.method": None}, [], [])
    assert answer.sentence == (
        "pruning.method is not ruled out everywhere: against it H-001, and H-002 waits for its test."
    )


def test_where_alone_nothing_is_decided_what_was_decided_together_with_others_is_said(
    history: History,
) -> None:
    both = {"serving.threads": 1, "serving.dtype": "bfloat16"}
    values = {"serving.threads": "1"}

    def why() -> str:
        return why_not_values(graph_of(history), values, [], []).sentence

    together = history.propose(both)
    assert why() == (
        "serving.threads=1 is not ruled out: no test of it is decided yet (H-001 waits for its test). It was "
        "never tested alone."
    )
    history.judge(together, VerdictOutcome.REFUTED)
    assert why() == (
        "serving.threads=1 is not ruled out by itself: it was never tested alone; together with others H-001 "
        "was refuted."
    )
    alone = history.propose({"serving.threads": 1})
    assert why() == (
        "serving.threads=1 is not ruled out: alone no test is decided (H-002 waits for its test); together "
        "with others H-001 was refuted."
    )
    history.judge(alone, VerdictOutcome.INCONCLUSIVE)
    assert "alone no test is decided (H-002 was inconclusive); together" in why()
    history.judge(history.propose({"serving.threads": 1}, control=BOTH_BUT_THREADS), VerdictOutcome.SUPPORTED)
    assert why() == (
        "serving.threads=1 is not ruled out: H-003 supports it. Together with others H-001 was refuted."
    )


def test_what_a_knob_came_with_is_nothing_else_that_was_set(history: History) -> None:
    removed = {"pruning.method": "depth", "pruning.layers_removed": 1}
    history.judge(history.propose(removed), VerdictOutcome.REFUTED)
    values = {"pruning.layers_removed": "1"}
    alone = why_not_values(graph_of(history), values, [], [])
    assert alone.sentence.startswith("pruning.layers_removed=1 is ruled out by H-001: ")
    history.propose({**removed, "serving.threads": 1})
    together = why_not_values(graph_of(history), {**values, "serving.threads": "1"}, [], [])
    assert "(H-002 waits for its test)." in together.sentence
    assert "never tested alone" not in together.sentence
    rows_of = ids(rows(together, "Its values by themselves"))
    assert rows_of == ["H-001"], "of the values one by one, what set nothing else"


def test_what_nobody_can_tell_and_what_is_not_whole_have_marks_of_their_own(history: History) -> None:
    objections = [
        Objection("The target has 2 cores for us."),
        Objection("It needs a method.", absolute=False, mark=Mark.INCOMPLETE),
        Objection("It can't be told.", absolute=False, mark=Mark.UNKNOWN),
    ]
    answer = why_not_values(graph_of(history), {"serving.threads": "16"}, objections, [])
    marks = [each.state for each in rows(answer, "Model, engine and target")]
    assert marks == ["infeasible", "incomplete", "unknown"]


def test_a_confounded_test_is_told_with_what_takes_it_apart(history: History) -> None:
    number = history.propose({"serving.threads": 1})
    history.judge(number, VerdictOutcome.CONFOUNDED, reason="The kernels differ.")
    answer = why_not_hypothesis(graph_of(history), "H-001", [], [])
    assert "is not settled: E-0001 found it confounded. The kernels differ." in answer.sentence
    assert ids(rows(answer, "Confounded tests")) == ["E-0001"]


def test_why_a_hypothesis_was_withdrawn_is_told_as_a_sentence(history: History) -> None:
    number = history.propose({"serving.threads": 1})
    with history.database.write() as session:
        row = session.get_one(Hypothesis, number)
        row.state, row.state_reason = HypothesisState.WITHDRAWN, "H-004 is the best now"
    answer = why_not_hypothesis(graph_of(history), "H-001", [], [])
    assert answer.sentence == "H-001 is ruled out: it was withdrawn. H-004 is the best now."


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("It lowers TPOT by 19.4 % [12.8, 25.5]", True),
        ("It lowers TPOT by 119.4 % [12.8, 25.5]", False),
        ("It makes a token at least 3 % faster.", False),
    ],
)
def test_an_effect_that_the_text_has_is_known_as_told(text: str, told: bool) -> None:
    assert Row(text=text, effect=EffectView(relative=-0.194)).tells_effect is told


def test_a_finding_that_is_contradicted_says_by_what(history: History) -> None:
    number = history.propose({"serving.threads": 1})
    first = history.judge(number, VerdictOutcome.SUPPORTED).experiment_id
    assert "is believed" in why_not_finding(graph_of(history), "F-001").sentence
    history.judge(number, VerdictOutcome.REFUTED, effect=(0.0, -0.01, 0.01), reproduces=first)
    answer = why_not_finding(graph_of(history), "F-001")
    assert "F-001 is contradicted" in answer.sentence
    assert ids(rows(answer, "Verdicts against it")) == ["E-0002"]


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


def test_a_sentence_says_how_many_it_does_not_name() -> None:
    assert some(["F-1", "F-2", "F-3"], 3) == "F-1, F-2 and F-3"
    assert some(["F-1", "F-2", "F-3", "F-4"], 3) == "F-1, F-2, F-3 and 1 more"


@pytest.mark.parametrize(("by", "author"), [(None, "you"), ("mcp:a", "an agent that says it is a")])
def test_what_a_person_wrote_down_is_marked_as_theirs_in_every_answer(
    full_history: History, by: str | None, author: str
) -> None:
    written = Telling("It is of no use.", ("serving.dtype=bfloat16",), says=Saying.DOES_NOT_HELP, by=by)
    with full_history.database.write() as session:
        label = f"F-{tell(session, written, 1).id:03}"
    graph = graph_of(full_history)
    assert led_to(graph, label).sentence == f"{label} was written down by {author}; nothing here led to it."
    for answer, title in (
        (known(graph, "serving.dtype", None, ()), "Findings"),
        (why_not_values(graph, {"serving.dtype": "bfloat16"}, [], []), "Findings against it"),
        (if_fell(graph, label, fall(graph, label)), "Findings"),
    ):
        because = {each.id: str(each.because) for each in rows(answer, title)}
        assert because.pop(label).startswith(f"written down by {author}")
        assert not [each for each in because.values() if "written down" in each]


def test_what_a_person_wrote_down_is_told_whole(full_history: History) -> None:
    claim = "Two threads do nothing on model copies of mine."
    with full_history.database.write() as session:
        number = tell(session, Telling(claim, ("serving.threads=2",)), 1).id
    graph = graph_of(full_history)
    assert claim.rstrip(".") in led_to(graph, f"F-{number:03}").asked
    assert claim in [each.text for each in rows(known(graph, "serving.threads", None, ()), "Findings")]


def test_a_label_that_there_is_not_is_refused_with_the_last_there_is(full_history: History) -> None:
    graph = graph_of(full_history)
    assert label_in(graph, "h-1", Noun.HYPOTHESIS) == "H-001"
    with pytest.raises(UsageError, match="H-099 does not exist; the last is H-007"):
        label_in(graph, "H-99", Noun.HYPOTHESIS)
    with pytest.raises(UsageError, match="names a campaign, but a finding or an experiment is wanted"):
        label_in(graph, "C-1", Noun.FINDING, Noun.EXPERIMENT)
    with pytest.raises(UsageError, match="there is no finding yet"):
        label_in(new_graph(), "F-1", Noun.FINDING)
