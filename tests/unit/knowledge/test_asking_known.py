"""What is known of a knob on hardware, what was measured elsewhere told apart."""

from __future__ import annotations

import pytest

from configs.errors import UsageError
from db.models import Hypothesis
from db.states import VerdictOutcome
from knowledge.asking.known import known
from knowledge.machines import machine
from tests.history.campaign_history import BASE, TARGET, History
from tests.unit.knowledge.asked import KNOBS, graph_of, ids, rows


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
    assert machine(TARGET) in str(there.value.hint)


def test_what_was_measured_elsewhere_is_told_apart(full_history: History) -> None:
    full_history.judge(6, VerdictOutcome.REFUTED, target="gpu:NVIDIA L4:24 GB", effect=(0.1, 0.05, 0.15))
    graph = graph_of(full_history)
    answer = known(graph, "serving.threads", "Example", KNOBS)
    assert [each.text for each in rows(answer, "On other hardware")] == ["NVIDIA L4 (24 GB)"]
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
    assert elsewhere.text == machine(TARGET)
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
