import pytest
from sqlalchemy import func, select

from db.event_kinds import EventKind
from db.models import Event, Finding, FindingEvidence
from db.states import EvidenceRelation, FindingStatus, VerdictOutcome
from knowledge.acts.notes import add_note
from knowledge.findings.keeping import update_findings
from tests.history.campaign_history import BASE, SPACE, TARGET, VERSIONS, History

SUPPORTED, REFUTED = VerdictOutcome.SUPPORTED, VerdictOutcome.REFUTED
INCONCLUSIVE, CONFOUNDED = VerdictOutcome.INCONCLUSIVE, VerdictOutcome.CONFOUNDED


def findings(history: History) -> list[Finding]:
    with history.database.read() as session:
        return list(session.scalars(select(Finding).order_by(Finding.id)))


def kinds(history: History) -> list[str]:
    with history.database.read() as session:
        return list(
            session.scalars(select(Event.kind).where(Event.kind.like("finding.%")).order_by(Event.id))
        )


def told(history: History) -> list[str]:
    with history.database.read() as session:
        query = select(Event.text).where(Event.kind.like("finding.%")).order_by(Event.id)
        return list(session.scalars(query))


def relations(history: History, finding: Finding) -> list[EvidenceRelation]:
    query = select(FindingEvidence.relation).where(FindingEvidence.finding_id == finding.id)
    with history.database.read() as session:
        return list(session.scalars(query.order_by(FindingEvidence.verdict_id)))


def test_a_supported_verdict_adds_a_finding_and_its_event(history: History) -> None:
    judged = history.judge(history.propose({"serving.threads": 1}), SUPPORTED)
    (found,) = findings(history)
    assert found.claim.startswith("Running on 1 thread instead of 2 lowers TPOT by 10.0 %")
    assert found.campaign_id == history.campaign_id
    assert found.scope["target"] == TARGET
    assert found.scope["versions"] == {"python": "3.11.9", "torch": "2.13.0"}
    assert found.scope["lever"] == "threads"
    assert kinds(history) == [EventKind.FINDING_ADDED]
    assert told(history) == ["Running on 1 thread instead of 2 lowers TPOT by 10.0 % [8.0, 12.0]."]
    with history.database.read() as session:
        assert session.get(FindingEvidence, (found.id, judged.verdict_id)) is not None


def test_the_log_tells_of_a_scope_what_tells_it_from_a_finding_that_reads_alike(history: History) -> None:
    for control in (BASE, SPACE.with_change(BASE, {"serving.dtype": "bfloat16"})):
        history.judge(history.propose({"serving.threads": 1}, control=control), SUPPORTED)
    said = "Running on 1 thread instead of 2 lowers TPOT by 10.0 % [8.0, 12.0]"
    assert told(history) == [f"{said}.", f"{said}, beside serving.dtype bfloat16."]
    assert all(" on model reference, target " in each.claim for each in findings(history))


def test_updating_twice_changes_nothing(history: History) -> None:
    judged = history.judge(history.propose({"serving.threads": 1}), SUPPORTED)
    before = findings(history)[0].updated_at
    with history.database.write() as session:
        assert update_findings(session, judged.verdict_id) == ()
    assert kinds(history) == [EventKind.FINDING_ADDED]
    assert findings(history)[0].updated_at == before


def test_a_reproduction_that_agrees_makes_the_finding_stronger(history: History) -> None:
    hypothesis = history.propose({"serving.threads": 1})
    first = history.judge(hypothesis, SUPPORTED)
    history.judge(hypothesis, SUPPORTED, effect=(-0.105, -0.125, -0.085), reproduces=first.experiment_id)
    (found,) = findings(history)
    assert found.strength == "reproduced"
    assert found.interval_high_log is not None
    assert found.interval_low_log is not None
    assert found.interval_high_log - found.interval_low_log < 0.04  # narrower than either
    assert relations(history, found) == [EvidenceRelation.SUPPORTS, EvidenceRelation.REPRODUCES]
    assert kinds(history) == [EventKind.FINDING_ADDED, EventKind.FINDING_CHANGED]


def test_a_reproduction_that_disagrees_contradicts_it(history: History) -> None:
    hypothesis = history.propose({"serving.threads": 1})
    first = history.judge(hypothesis, SUPPORTED)
    history.judge(hypothesis, REFUTED, effect=(0.0, -0.01, 0.01), reproduces=first.experiment_id)
    (found,) = findings(history)
    assert found.status is FindingStatus.CONTRADICTED
    assert relations(history, found) == [EvidenceRelation.SUPPORTS, EvidenceRelation.CONTRADICTS]


@pytest.mark.parametrize("left_open", [INCONCLUSIVE, CONFOUNDED])
@pytest.mark.parametrize("said", [SUPPORTED, REFUTED])
def test_the_rerun_of_an_open_test_makes_no_finding_nor_does_a_rerun_of_that(
    history: History, left_open: VerdictOutcome, said: VerdictOutcome
) -> None:
    hypothesis = history.propose({"serving.threads": 1})
    first = history.judge(hypothesis, left_open)
    again = history.judge(hypothesis, said, reproduces=first.experiment_id)
    history.judge(hypothesis, said, reproduces=again.experiment_id)
    assert findings(history) == []
    assert kinds(history) == []


def test_the_rerun_of_an_open_test_is_pooled_with_a_test_that_decided(history: History) -> None:
    hypothesis = history.propose({"serving.threads": 1})
    left_open = history.judge(hypothesis, INCONCLUSIVE, effect=(-0.02, -0.08, 0.04))
    other = history.start("second")
    history.judge(history.propose({"serving.threads": 1}, campaign_id=other), SUPPORTED)
    history.judge(hypothesis, SUPPORTED, effect=(-0.10, -0.12, -0.08), reproduces=left_open.experiment_id)
    (found,) = findings(history)
    assert found.strength == "single"
    assert relations(history, found) == [
        EvidenceRelation.INFORMS,
        EvidenceRelation.SUPPORTS,
        EvidenceRelation.INFORMS,
    ]


def test_the_same_change_in_another_campaign_of_the_same_model_is_the_same_finding(history: History) -> None:
    history.judge(history.propose({"serving.threads": 1}), SUPPORTED)
    other = history.start("second")
    history.judge(history.propose({"serving.threads": 1}, campaign_id=other), SUPPORTED)
    (found,) = findings(history)
    assert found.strength == "replicated"
    assert relations(history, found) == [EvidenceRelation.SUPPORTS, EvidenceRelation.REPLICATES]


def test_another_model_or_target_is_another_finding(history: History) -> None:
    history.judge(history.propose({"serving.threads": 1}), SUPPORTED)
    other = history.start("second", fingerprint="e" * 64)
    elsewhere = history.propose({"serving.threads": 1}, campaign_id=other)
    history.judge(elsewhere, REFUTED, effect=(0.0, -0.01, 0.01))
    third = history.start("third")
    history.judge(
        history.propose({"serving.threads": 1}, campaign_id=third), SUPPORTED, target="cpu:Other:4 cores"
    )
    assert [each.status for each in findings(history)] == [FindingStatus.HOLDS] * 3


def test_a_newer_version_supersedes_the_finding_of_the_older(history: History) -> None:
    hypothesis = history.propose({"serving.threads": 1})
    first = history.judge(hypothesis, SUPPORTED)
    newer = {**VERSIONS, "torch": "2.14.0"}
    history.judge(
        hypothesis, REFUTED, effect=(0.0, -0.01, 0.01), reproduces=first.experiment_id, versions=newer
    )
    old, new = findings(history)
    assert old.status is FindingStatus.SUPERSEDED
    assert old.superseded_by_id == new.id
    assert new.status is FindingStatus.HOLDS


def test_what_never_came_up_takes_its_versions_from_the_campaign(history: History) -> None:
    history.judge(history.propose({"serving.threads": 1}), SUPPORTED)
    broken = history.propose({"serving.compile": "default"})
    history.judge(
        broken, VerdictOutcome.INFEASIBLE, effect=None, failure=("build_failed", "no compiler"), reason="No."
    )
    assert findings(history)[1].scope["versions"] == {"python": "3.11.9", "torch": "2.13.0"}


def test_after_a_note_made_it_stale_new_verdicts_make_a_new_finding(history: History) -> None:
    hypothesis = history.propose({"serving.threads": 1})
    first = history.judge(hypothesis, SUPPORTED)
    with history.database.write() as session:
        add_note(session, "A new driver.", stale="threads")
    history.judge(hypothesis, REFUTED, effect=(0.0, -0.01, 0.01), reproduces=first.experiment_id)
    old, new = findings(history)
    assert (old.status, old.superseded_by_id) == (FindingStatus.STALE, new.id)
    assert new.status is FindingStatus.HOLDS
    assert relations(history, new) == [EvidenceRelation.SUPPORTS]
    history.judge(hypothesis, REFUTED, effect=(0.0, -0.01, 0.01), reproduces=first.experiment_id)
    assert findings(history)[1].strength == "reproduced"
    assert len(findings(history)) == 2


def test_inconclusive_verdicts_alone_leave_nothing(history: History) -> None:
    history.judge(
        history.propose({"serving.threads": 1}), VerdictOutcome.INCONCLUSIVE, effect=(0.0, -0.05, 0.05)
    )
    with history.database.read() as session:
        assert session.scalar(select(func.count()).select_from(Finding)) == 0
