"""What a place in the queue says of other campaigns' findings, and when the log tells how far they count."""

from __future__ import annotations

from dataclasses import replace

from agent.campaign.decision.carried_words import TOLD_STEP, rests_on, tell_carried
from agent.campaign.decision.desk import Desk
from agent.campaign.known.ruled_out import Differing, RuledOut
from agent.campaign.queue.order import rank_queue, take_in
from agent.surrogate.carried import Carried
from db import events
from db.event_kinds import EventKind
from db.models import Hypothesis
from experiments.measurement.judging import Outcome
from knowledge.queries.order.carried import carried_view
from tests.history.campaign_history import History
from tests.unit.agent.test_desk import BASELINE, COMPILED, PRUNED, desk, queued, trial
from tests.unit.knowledge.conftest import history

__all__ = ["history"]

FASTER = Carried(
    trial(9, BASELINE, COMPILED, Outcome.SUPPORTED, -0.7),
    "C-1",
    same_model=True,
    same_workload=True,
    finding="F-003",
)
ALIKE = trial(3, BASELINE, COMPILED, Outcome.SUPPORTED, -0.9)
AGAINST = RuledOut(
    "F-012",
    "does not help",
    frozenset(BASELINE.changes_to(PRUNED)),
    BASELINE,
    (Differing("1 request at once", "16 requests at once"),),
    ours=True,
)


def begun(found: Desk, *ruled_out: RuledOut) -> Desk:
    return Desk(replace(found.facts, carried=(FASTER,), ruled_out=ruled_out), found.legal, found.baseline, ())


def test_a_place_names_the_findings_that_its_expectation_rests_on_and_how_far_they_count() -> None:
    found = begun(desk(queued(1, COMPILED), queued(2, PRUNED)))
    said = rests_on(found, queued(1, COMPILED))
    assert said.startswith("What is expected rests on F-003 (−")
    assert said.endswith("carried over at a weight of 80 %.")
    assert rests_on(found, queued(2, PRUNED)) == ""
    assert rests_on(desk(queued(1, COMPILED)), queued(1, COMPILED)) == ""


def test_what_a_finding_of_another_scope_speaks_against_says_what_differs() -> None:
    found = begun(desk(queued(2, PRUNED)), AGAINST)
    assert rests_on(found, queued(2, PRUNED)) == (
        "F-012 says that it does not help with 1 request at once; asked again since here it is 16 "
        "requests at once."
    )


def test_what_is_ruled_out_here_leaves_the_queue() -> None:
    found = begun(desk(queued(2, PRUNED)), replace(AGAINST, differs=()))
    assert found.leaving == {2: "F-012 says that it does not help here, and nothing of its scope differs"}


def test_what_came_out_otherwise_here_rules_nothing_out_any_more() -> None:
    slower = trial(3, BASELINE, COMPILED, Outcome.REFUTED, 0.7)
    found = begun(desk(queued(2, PRUNED), trials=(slower,)), replace(AGAINST, differs=()))
    assert found.trust < 0.5
    assert found.leaving == {}


def test_the_queue_and_the_log_tell_of_it_and_again_only_when_it_has_moved(history: History) -> None:
    with history.database.write() as session:
        events.append(session, EventKind.CAMPAIGN_BASELINE, "Trial 0.", campaign_id=1)
        take_in(session, begun(desk(), AGAINST), [history.draft({"serving.compile": "cpp_wrapper"})])
        row = session.get_one(Hypothesis, 1)
        found = begun(desk(queued(1, COMPILED)))
        rank_queue(session, found)
        assert row.rank_reason is not None
        assert "rests on F-003 (−" in row.rank_reason
        first = carried_view(session, 1)
        tell_carried(session, found)
        same = carried_view(session, 1)
        slower = trial(3, BASELINE, COMPILED, Outcome.REFUTED, 0.7)
        tell_carried(session, begun(desk(trials=(slower,))))
        moved = carried_view(session, 1)
    assert first is not None
    assert same == first
    assert moved is not None
    assert (moved.event_id > first.event_id, moved.weight < 0.5, moved.judged) == (True, True, 1)


def test_the_first_outcome_here_is_told_though_it_moved_nothing(history: History) -> None:
    """Else pages went on to say that nothing measured here has tried what was carried over."""
    told = []
    with history.database.write() as session:
        for trials in ((), (ALIKE,), (ALIKE, ALIKE)):
            tell_carried(session, begun(desk(trials=trials)))
            told.append(carried_view(session, 1))
    before, first, second = told
    assert before is not None
    assert first is not None
    assert abs(first.weight - before.weight) < TOLD_STEP
    assert (before.judged, first.judged) == (0, 1)
    assert "nothing measured here" not in first.sentence.lower()
    assert second == first
