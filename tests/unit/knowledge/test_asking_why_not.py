"""Why something is ruled out, or is not: verdicts, findings, bans, legality and what waits."""

from __future__ import annotations

from db.models import Hypothesis
from db.states import HypothesisState, VerdictOutcome
from knowledge.asking.objections import Mark, Objection
from knowledge.asking.why_not import why_not_finding, why_not_hypothesis, why_not_values
from knowledge.findings.told import Telling, tell
from knowledge.findings.verdict_fact import Saying
from tests.history.campaign_history import History
from tests.unit.knowledge.asked import BOTH_BUT_THREADS, FASTER, graph_of, ids, rows


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


def test_a_finding_that_is_contradicted_says_by_what(history: History) -> None:
    number = history.propose({"serving.threads": 1})
    first = history.judge(number, VerdictOutcome.SUPPORTED).experiment_id
    assert "is believed" in why_not_finding(graph_of(history), "F-001").sentence
    history.judge(number, VerdictOutcome.REFUTED, effect=(0.0, -0.01, 0.01), reproduces=first)
    answer = why_not_finding(graph_of(history), "F-001")
    assert "F-001 is contradicted" in answer.sentence
    assert ids(rows(answer, "Verdicts against it")) == ["E-0002"]
