import pytest
from sqlalchemy import select

from configs.errors import UsageError
from db.models import Event, Finding
from db.states import FindingStatus, VerdictOutcome
from knowledge.acts.notes import Noted, add_note, concerns
from tests.history.campaign_history import History

SCOPE = {
    "model": "reference",
    "target": "cpu:Example CPU:2 cores",
    "engine": "reference",
    "versions": {"torch": "2.13.0"},
    "lever": "threads",
    "knobs": ["serving.threads"],
}


def note(history: History, text: str, stale: str | None = None) -> Noted:
    with history.database.write() as session:
        return add_note(session, text, stale=stale)


@pytest.mark.parametrize(
    "match",
    [
        "threads",
        "serving.threads",
        "serving",
        "target=cpu:Example CPU:2 cores",
        "torch",
        "torch=2.13.0",
        "engine=reference",
    ],
)
def test_a_scope_is_concerned_by_its_lever_knobs_groups_and_parts(match: str) -> None:
    assert concerns(SCOPE, match)


@pytest.mark.parametrize(
    "match", ["thread", "serving.thread", "dtype", "torch=2.14.0", "target=cuda", "numpy", ""]
)
def test_a_scope_is_not_concerned_by_what_only_looks_alike(match: str) -> None:
    assert not concerns(SCOPE, match)


def test_a_note_is_an_event_with_its_text(history: History) -> None:
    noted = note(history, "  Updated the\n driver. ")
    with history.database.read() as session:
        event = session.get_one(Event, noted.event_id)
    assert (event.kind, event.text, event.data) == ("note.added", "Updated the driver.", None)


def test_a_note_marks_the_findings_of_a_lever_stale_and_leaves_the_others(full_history: History) -> None:
    noted = note(full_history, "New threads library.", stale="threads")
    with full_history.database.read() as session:
        statuses = {each.id: each.status for each in session.scalars(select(Finding))}
        reason = session.get_one(Finding, 1).status_reason
        changed = session.scalars(select(Event.subject).where(Event.kind == "finding.changed")).all()
    assert noted.stale == (1,)
    assert statuses == {1: FindingStatus.STALE, 2: FindingStatus.HOLDS, 3: FindingStatus.HOLDS}
    assert reason == "Something changed outside: New threads library."
    assert changed == ["F-001"]


def test_a_note_marks_one_finding_by_its_label(full_history: History) -> None:
    assert note(full_history, "Mended it.", stale="f-2").stale == (2,)


def test_a_note_that_concerns_nothing_is_not_written(full_history: History) -> None:
    with pytest.raises(UsageError, match="No finding that still holds has to do with 'quantization'"):
        note(full_history, "Something.", stale="quantization")
    with full_history.database.read() as session:
        assert session.scalars(select(Event).where(Event.kind == "note.added")).all() == []


def test_a_stale_finding_is_not_marked_again(full_history: History) -> None:
    note(full_history, "First.", stale="threads")
    with pytest.raises(UsageError, match="No finding that still holds"):
        note(full_history, "Second.", stale="threads")


def test_a_finding_that_does_not_exist_is_refused_with_the_last_one(full_history: History) -> None:
    with pytest.raises(UsageError, match="F-009 does not exist; the last is F-003"):
        note(full_history, "Something.", stale="F-9")


def test_an_empty_note_is_refused(history: History) -> None:
    with pytest.raises(UsageError, match="empty"):
        note(history, "  \n ")


def test_an_inconclusive_verdict_after_a_note_leaves_the_finding_stale(history: History) -> None:
    hypothesis = history.propose({"serving.threads": 1})
    first = history.judge(hypothesis, VerdictOutcome.SUPPORTED)
    note(history, "New driver.", stale="threads")
    history.judge(
        hypothesis, VerdictOutcome.INCONCLUSIVE, effect=(0.0, -0.05, 0.05), reproduces=first.experiment_id
    )
    with history.database.read() as session:
        assert [each.status for each in session.scalars(select(Finding))] == [FindingStatus.STALE]
