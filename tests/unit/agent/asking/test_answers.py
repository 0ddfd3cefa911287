"""Questions that need a campaign's ground: what is untested next to the best, where the queue would go
without a verdict, what is legal; and what is said where the ground is not there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from agent.asking import answers, of_the_graph
from agent.asking.fallen import learnt_from, without
from agent.asking.preview import Ground
from agent.asking.untested import untested
from agent.asking.why_not import what_rules_out
from agent.ground.legal import Legal
from agent.ranking.values import Directive
from configs.campaign import load_campaign
from configs.errors import AutoinferError, UsageError
from db.models import Campaign, Configuration, Finding
from db.session import open_database
from db.states import DirectiveKind, VerdictOutcome
from experiments.measurement.judging import Outcome
from experiments.space.loading import load_space
from knowledge.acts.directives import add
from knowledge.asking.answer import Answer
from knowledge.findings.exchange import read_file
from knowledge.findings.importing import export_verdicts, import_verdicts
from knowledge.findings.told import Telling, tell
from knowledge.findings.verdict_fact import Saying
from knowledge.graph.building import build_graph
from knowledge.graph.typed_graph import new_graph
from tests.history.campaign_history import BASE, History, a_full_history
from tests.history.campaign_history import SPACE as SPACE_OF_HISTORY
from tests.new_database import database_url
from tests.unit.agent.test_desk import BASELINE, COMPILED, SPACE, desk, queued, trial

FULL = load_space("reference")
HALF = SPACE.with_change(BASELINE, {"serving.dtype": "bfloat16"})


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("asked")
    a_full_history(folder).close()
    return folder


@pytest.fixture
def history(tmp_path: Path, written: Path) -> Iterator[History]:
    shutil.copytree(written, tmp_path, dirs_exist_ok=True)
    found = History(tmp_path, open_database(database_url(tmp_path)))
    yield found
    found.close()


def on_the_desk(session: Session, campaign_id: int) -> Ground:
    found = desk(queued(6, COMPILED))
    return Ground(found.facts, found.legal, found)


def nowhere(session: Session, campaign_id: int) -> Ground:
    raise AutoinferError("There is no checkpoint at /models/reference.", "Put it back.")


def allowed_there(session: Session, campaign_id: int) -> Legal:
    return on_the_desk(session, campaign_id).legal


def legal_nowhere(session: Session, campaign_id: int) -> Legal:
    return nowhere(session, campaign_id).legal


def titles(answer: Answer) -> dict[str, tuple[str, ...]]:
    return {each.title: tuple(row.text for row in each.rows) or (each.none,) for each in answer.sections}


def test_neighbours_that_no_experiment_covered_are_told_with_what_is_believed_the_others_with_why() -> None:
    asked_desk = desk(queued(1, COMPILED), queued(2, HALF))
    found = untested(asked_desk, FULL, frozenset({COMPILED.digest}), {HALF.digest: "H-002"})
    legal = {each.candidate: each for each in found.legal}
    assert COMPILED not in legal
    assert BASELINE not in legal
    assert legal[HALF].waits == "H-002"
    assert all(0 < each.belief.p_feasible <= 1 for each in found.legal if each.belief is not None)
    assert all(each.belief is not None for each in found.legal)
    saved = [each.expected for each in found.legal]
    assert saved == sorted(saved, reverse=True)
    illegal = {each.changes[0].after for each in found.illegal if each.changes[0].knob == "serving.threads"}
    assert {4, 8} <= illegal  # the space has them, and this ground has two cores
    assert all(each.why_not for each in found.illegal)
    offered = {*SPACE.neighbours(BASELINE), *FULL.neighbours(BASELINE)}
    assert len(found.legal) + len(found.illegal) + found.covered == len(offered)


def test_what_costs_time_is_not_put_ahead_for_a_small_chance_that_it_may() -> None:
    found = untested(desk(queued(1, COMPILED)), FULL, frozenset(), {})
    known = next(each for each in found.legal if each.belief is not None)
    assert known.belief is not None

    def expected(mean: float, p_quality: float) -> float:
        assert known.belief is not None
        believed = known.belief.prediction.model_copy(update={"log_ratio_mean": mean})
        return replace(known, belief=replace(known.belief, prediction=believed, p_quality=p_quality)).expected

    assert expected(0.2, 0.1) == expected(0.2, 0.9) < expected(0.1, 0.9)
    assert 0 < expected(-0.2, 0.1) < expected(-0.2, 0.9)


def test_a_neighbour_of_a_banned_lever_says_so() -> None:
    ban = Directive(DirectiveKind.BAN, 1, "you", "12:00", "dtype")
    found = untested(replace(desk(queued(1, COMPILED)), directives=(ban,)), FULL, frozenset(), {})
    assert [each.banned for each in found.legal if each.candidate == HALF] == [("dtype",)]


def test_without_the_verdict_of_the_best_the_one_before_is_best_and_what_stands_on_it_leaves() -> None:
    on_top = replace(queued(3, SPACE.with_change(COMPILED, {"serving.dtype": "bfloat16"})), control=COMPILED)
    known = desk(on_top, queued(4, HALF), trials=(trial(1, BASELINE, COMPILED, Outcome.SUPPORTED),))
    assert known.incumbent.configuration == COMPILED
    found = without(known, {1})
    assert found is not None
    assert found.is_another
    assert found.best.configuration == BASELINE
    assert found.leave == (3,)
    assert without(known, {9}) is None


def test_of_more_outcomes_than_are_learnt_anew_what_is_believed_stays() -> None:
    known = desk(queued(4, HALF), trials=(trial(1, BASELINE, COMPILED, Outcome.SUPPORTED),))
    anew, as_it_is = without(known, {1}), without(known, {1}, most_relearnt=0)
    assert anew is not None
    assert as_it_is is not None
    assert (anew.relearnt, as_it_is.relearnt) == (True, False)
    assert anew.best.configuration == as_it_is.best.configuration == BASELINE
    assert learnt_from(known) == 1


def test_of_many_campaigns_the_queues_of_those_that_go_on_and_of_the_newest_are_told(
    history: History,
) -> None:
    graph = new_graph()
    for number in range(1, 8):
        graph.add_node(f"C-{number}", state="running" if number == 2 else "stopped")
    asked: list[int] = []

    def ground(session: Session, campaign_id: int) -> Ground:
        asked.append(campaign_id)
        return on_the_desk(session, campaign_id)

    with history.database.read() as session:
        found = answers.orders_without(session, graph, {f"C-{n}": [1] for n in range(1, 8)}, ground)
    assert asked == [2, 7, 6]
    assert [each.title for each in found] == [
        "The queue of C-2",
        "The queue of C-7",
        "The queue of C-6",
        "The queues of other campaigns",
    ]
    assert found[-1].none == "Of C-5, C-4, C-3 and C-1 it is not told here; ask of a verdict of theirs."


def test_what_is_untested_is_answered_for_a_campaign_and_refused_without_one(history: History) -> None:
    with history.database.read() as session:
        answer = answers.what_is_untested(session, None, on_the_desk)
        assert set(titles(answer)) == {"Never tested", "Can't run here"}
        assert "from the best, the baseline, can run here and were never tested" in answer.sentence
        with pytest.raises(UsageError, match="C-1 has no best before its baseline is measured"):
            answers.what_is_untested(session, "C-1", lambda s, c: replace(on_the_desk(s, c), desk=None))
        with pytest.raises(UsageError, match="C-7 does not exist"):
            answers.what_is_untested(session, "C-7", on_the_desk)


@pytest.mark.parametrize("metric", ["tpot_ms", "e2el_ms"])
def test_what_is_untested_is_expected_on_what_the_campaign_is_about(metric: str, history: History) -> None:
    def ground_of(session: Session, campaign_id: int) -> Ground:
        found = on_the_desk(session, campaign_id)
        assert found.desk is not None
        facts = replace(found.desk.facts, spec=load_campaign("default", {"plan.metric": metric}))
        return replace(found, desk=replace(found.desk, facts=facts))

    with history.database.read() as session:
        answer = answers.what_is_untested(session, None, ground_of)
    rows = [row for each in answer.sections if each.title == "Never tested" for row in each.rows]
    assert {row.effect.metric for row in rows if row.effect is not None} == {metric}


def test_hardware_that_is_not_named_is_all_of_it(history: History) -> None:
    with history.database.read() as session:
        graph = build_graph(session)
        everywhere = of_the_graph.what_is_known(session, graph, "serving.threads", None)
        assert of_the_graph.what_is_known(session, graph, "serving.threads", " ") == everywhere
        assert everywhere.asked == "What is known about serving.threads?"


def test_why_not_takes_labels_knobs_and_values_and_refuses_the_rest(history: History) -> None:
    with history.database.write() as session:
        add(session, 1, DirectiveKind.BAN, "Nothing of threads is tested.", lever="threads")
    with history.database.read() as session:
        graph = build_graph(session)

        def why(*words: str) -> Answer:
            return what_rules_out(session, graph, words, None, allowed_there)

        assert "E-0002 found it refuted" in why("E-2").sentence
        assert why("F-1").sentence.startswith("F-001 is believed")
        assert "ruled out by you: Nothing of threads is tested." in why("serving.threads=1").sentence
        assert titles(why("serving.threads"))["Your steering"] == ("Nothing of threads is tested.",)
        assert "H-002" in why("serving.dtype=bfloat16,").sentence
        lacks = why("pruning.layers_removed=1")
        (row,) = next(each.rows for each in lacks.sections if each.title == "Model, engine and target")
        assert "pruning.method" in row.text
        assert row.state == "incomplete"
        for words, message in (
            (("",), "Nothing was named"),
            (("serving.thread=1",), "There is no knob 'serving.thread'"),
            (("serving.threads=x",), "serving.threads"),
            (("serving.threads=1", "serving.threads"), "is set twice"),
            (("H-99",), "H-099 does not exist; the last is H-007"),
            (("nonsense",), "'nonsense' is not a label"),
        ):
            with pytest.raises(UsageError, match=message):
                why(*words)


def test_where_the_model_is_gone_the_rest_is_answered_and_that_is_said(history: History) -> None:
    with history.database.read() as session:
        graph = build_graph(session)
        why = what_rules_out(session, graph, ["H-002"], None, legal_nowhere)
        assert "E-0002 found it refuted" in why.sentence
        (unknown,) = next(each.rows for each in why.sections if each.title == "Model, engine and target")
        assert "can't be told here: There is no checkpoint" in unknown.text
        assert unknown.state == "unknown"
        fell = answers.what_if_fell(session, graph, "E-0001", nowhere)
        assert "F-001 would fall" in fell.sentence
        assert titles(fell)["The queue of C-1"] == (answers.UNCHANGED,), "its baseline was never measured"
        with pytest.raises(AutoinferError, match="There is no checkpoint") as gone:
            answers.what_is_untested(session, "C-1", nowhere)
        assert gone.value.hint == answers.MODEL_GONE


def test_where_the_model_is_gone_who_would_be_best_then_is_told_by_the_verdicts_that_are_left(
    tmp_path: Path,
) -> None:
    history = History(tmp_path)
    threads = {"serving.threads": 1}
    first = history.judge(history.propose(threads), VerdictOutcome.SUPPORTED)
    less = SPACE_OF_HISTORY.with_change(BASE, threads)
    on_top = history.propose({"serving.compile": "default"}, control=less)
    second = history.judge(on_top, VerdictOutcome.SUPPORTED)
    slower = history.judge(history.propose({"serving.dtype": "bfloat16"}), VerdictOutcome.REFUTED)
    with history.database.write() as session:
        baseline = session.scalars(select(Configuration).where(Configuration.digest == BASE.digest)).one()
        session.get_one(Campaign, 1).baseline_configuration_id = baseline.id
    with history.database.read() as session:
        graph = build_graph(session)

        def then(label: str) -> tuple[str, ...]:
            return titles(answers.what_if_fell(session, graph, label, nowhere))["The queue of C-1"]

        why = answers.UNTOLD.format(why="There is no checkpoint at /models/reference.")
        assert then(f"E-{second.experiment_id:04d}") == (
            f"H-{first.hypothesis_id:03d} would be the best then.",
            why,
        )
        assert then(f"E-{first.experiment_id:04d}") == ("The baseline would be the best then.", why)
        assert then(f"E-{slower.experiment_id:04d}") == ("Its best would stay what it is.", why)
    history.close()


def test_a_finding_that_another_disputes_is_not_said_to_have_none_against_it(history: History) -> None:
    with history.database.write() as session:
        written = Telling("One thread is of no use.", ("serving.threads=1",), Saying.DOES_NOT_HELP)
        told = f"F-{tell(session, written, 1).id:03}"
    with history.database.read() as session:
        graph = build_graph(session)
        of_both = [what_rules_out(session, graph, [each], None, legal_nowhere) for each in ("F-001", told)]
        alone = what_rules_out(session, graph, ["F-002"], None, legal_nowhere)
    for answer, other in zip(of_both, (told, "F-001"), strict=True):
        assert answer.sentence.endswith(f", but {other} disputes it.")
        (row,) = next(each.rows for each in answer.sections if "against it" in each.title and each.rows)
        assert (row.id, row.relation) == (other, "disputed by")
        assert "F-001 says that it helps" in str(row.because)
    assert "dispute" not in alone.sentence


def test_verdicts_of_another_database_are_told_among_what_led_to_a_finding_speaks_against_it_and_falls(
    history: History,
) -> None:
    refuted = {"outcome": "refuted", "effect_log": 0.0, "low_log": -0.01, "high_log": 0.01, "reason": "No."}
    with history.database.write() as session:
        file = json.loads(export_verdicts(session, "lab").model_dump_json())
        of_the_first = next(each for each in file["verdicts"] if each["outcome"] == "supported")
        here, there = of_the_first | refuted, of_the_first | {"target": "gpu:NVIDIA H200:141 GB"}
        import_verdicts(session, read_file(json.dumps(file | {"verdicts": [here, there]}), "lab.json"))
        newest = f"F-{session.scalar(select(func.max(Finding.id))):03d}"
    with history.database.read() as session:
        graph = build_graph(session)
        against = what_rules_out(session, graph, ["F-001"], None, legal_nowhere)
        known = of_the_graph.what_is_known(session, graph, "serving.threads", None)
        led = of_the_graph.what_led_to(session, graph, newest)
        fell = answers.what_if_fell(session, graph, newest, nowhere)
    (row,) = against.sections[0].rows
    assert (row.id, row.relation, row.state, row.because) == (None, "contradicts it", "refuted", "No.")
    assert row.text == f"a verdict that was imported from lab, on {of_the_first['target']}"
    of_known = {each.id: each for each in next(e for e in known.sections if e.title == "Findings").rows}
    (imported,) = of_known[newest].rows
    assert imported.text == "a verdict that was imported from lab, on gpu:NVIDIA H200:141 GB"
    assert [each.relation for each in of_known["F-001"].rows] == ["supports", "contradicts it"]
    assert str(of_known[newest].scope).startswith("reference · NVIDIA H200 · reference · ")
    assert str(of_known["F-001"].scope).startswith("reference · Example CPU · reference · ")
    assert led.sentence == f"1 imported verdict led to {newest}; nothing here did."
    assert "on gpu:NVIDIA H200:141 GB" in titles(led)["Where it comes from"][0]
    assert "imported from lab" in titles(fell)["Verdicts that would fall"][0]
    (falls,) = next(each for each in fell.sections if each.title == "Findings").rows
    assert (falls.id, falls.because) == (newest, "no verdict would say so any more")


def test_every_finding_of_an_answer_is_told_with_its_scope(history: History) -> None:
    with history.database.read() as session:
        graph = build_graph(session)
        said = [
            of_the_graph.what_is_known(session, graph, "serving.dtype", None),
            what_rules_out(session, graph, ["H-002"], None, allowed_there),
            what_rules_out(session, graph, ["serving.dtype=bfloat16"], None, allowed_there),
            answers.what_if_fell(session, graph, "E-0002", on_the_desk),
        ]
    for answer in said:
        found = [row for each in answer.sections for row in each.rows if row.id == "F-002"]
        assert found, answer.asked
        assert all(str(row.scope).startswith("reference · Example CPU") for row in found), answer.asked
        assert all(row.scope is None for each in answer.sections for row in each.rows if row.id != "F-002")


def test_imported_verdicts_stand_below_the_findings_against_something(history: History) -> None:
    with history.database.write() as session:
        file = json.loads(export_verdicts(session, "lab").model_dump_json())
        refuted = next(each for each in file["verdicts"] if each["outcome"] == "refuted")
        theirs = refuted | {"effect_log": 0.1, "low_log": 0.05, "high_log": 0.15, "reason": "No."}
        import_verdicts(session, read_file(json.dumps(file | {"verdicts": [theirs]}), "lab.json"))
    with history.database.read() as session:
        graph = build_graph(session)
        for subject in ("H-002", "serving.dtype=bfloat16"):
            answer = what_rules_out(session, graph, [subject], None, allowed_there)
            against = next(each for each in answer.sections if each.title == "Findings against it")
            ((imported,),) = [each.rows for each in against.rows]
            assert imported.text.startswith("a verdict that was imported from lab")


def test_what_led_to_a_hypothesis_has_its_moves_with_their_cause(history: History) -> None:
    with history.database.read() as session:
        answer = of_the_graph.what_led_to(session, build_graph(session), "H-006")
    assert titles(answer)["Its places in the queue"] == ("Threads turned out to matter.",)
    assert titles(answer)["The profile it was proposed under"] == ("Nothing was profiled before.",)


def test_what_waits_is_assumed_refuted_and_the_queue_told(history: History) -> None:
    with history.database.read() as session:
        answer = answers.what_if_fell(session, build_graph(session), "H-006", on_the_desk)
    assert "H-006 has no verdict yet" in answer.sentence
    assert "The queue, if H-006 is refuted" in titles(answer)
