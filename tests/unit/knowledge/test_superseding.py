"""Which finding of one statement is the newer: by versions, else by when it was measured."""

import json

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from configs.errors import UsageError
from db.event_kinds import EventKind
from db.models import Event, Finding
from db.states import FindingStatus, VerdictOutcome
from experiments.measurement.evidence import Json
from knowledge.acts.notes import add_note
from knowledge.findings import superseding
from knowledge.findings.exchange import read_file
from knowledge.findings.facts import facts_of_finding
from knowledge.findings.importing import export_verdicts, import_verdicts
from knowledge.findings.superseding import newer_by_versions
from knowledge.findings.verdict_fact import VerdictFact
from knowledge.machines import machine
from tests.history.campaign_history import TARGET, VERSIONS, History

SUPPORTED, REFUTED = VerdictOutcome.SUPPORTED, VerdictOutcome.REFUTED
HOLDS, STALE, SUPERSEDED = FindingStatus.HOLDS, FindingStatus.STALE, FindingStatus.SUPERSEDED
NO_GAIN = (0.0, -0.01, 0.01)
HELPS_THERE = {"outcome": "supported", "effect_log": -0.1, "low_log": -0.12, "high_log": -0.08}
CHANGE = {"serving.threads": 1}
OTHER: dict[str, Json] = {"serving.compile": "default"}
LONG_AGO, FAR_AHEAD = "2001-01-01T00:00:00+00:00", "2101-01-01T00:00:00+00:00"


def findings(history: History) -> list[Finding]:
    with history.database.read() as session:
        return list(session.scalars(select(Finding).order_by(Finding.id)))


def told(history: History, **changed: object) -> str:
    """The first verdict of here as another database would tell it, with what is `changed`."""
    with history.database.read() as session:
        file = json.loads(export_verdicts(session, "lab").model_dump_json())
    return json.dumps({**file, "verdicts": [{**file["verdicts"][0], **changed}]})


def import_(history: History, text: str) -> None:
    with history.database.write() as session:
        import_verdicts(session, read_file(text, "lab.json"))


def on(torch: str, **more: str) -> dict[str, str]:
    return {"python": "3.11.9", "torch": torch, **more}


def test_what_is_imported_from_older_versions_is_superseded_by_what_was_found_here(history: History) -> None:
    history.judge(history.propose(CHANGE), REFUTED, effect=NO_GAIN)
    import_(history, told(history, **HELPS_THERE, versions=on("2.9.1"), at=FAR_AHEAD))
    here, there = findings(history)
    assert (here.status, here.superseded_by_id) == (HOLDS, None)
    assert (there.status, there.superseded_by_id) == (SUPERSEDED, here.id)
    assert there.status_reason == "F-001 says otherwise on newer versions."
    with history.database.read() as session:
        added = session.scalars(select(Event).where(Event.kind == EventKind.FINDING_ADDED)).all()
        assert added[-1].text.endswith(". F-001 says otherwise on newer versions.")
        assert (added[-1].data or {})["supersedes"] == []
        assert session.scalars(select(Event.id).where(Event.kind == EventKind.FINDING_DISPUTED)).all() == []


def test_what_is_imported_from_newer_versions_supersedes_what_was_found_here(history: History) -> None:
    history.judge(history.propose(CHANGE), SUPPORTED)
    import_(history, told(history, versions=on("2.13.1"), at=LONG_AGO))
    here, there = findings(history)
    assert (here.status, here.superseded_by_id) == (SUPERSEDED, there.id)
    assert here.status_reason == "F-002 says it on newer versions."
    assert (there.status, there.superseded_by_id) == (HOLDS, None)


def test_a_later_import_from_the_middle_is_superseded_by_the_newest_and_leaves_the_oldest(
    history: History,
) -> None:
    history.judge(history.propose(CHANGE), SUPPORTED)
    text = told(history, versions=on("2.15.0"))
    between = told(history, versions=on("2.14.0"))
    import_(history, text)
    import_(history, between)
    assert [(each.status, each.superseded_by_id) for each in findings(history)] == [
        (SUPERSEDED, 2),
        (HOLDS, None),
        (SUPERSEDED, 2),
    ]


@pytest.mark.parametrize(("at", "superseded"), [(LONG_AGO, 2), (FAR_AHEAD, 1)])
def test_where_versions_do_not_compare_it_is_the_later_measured_that_supersedes(
    history: History, at: str, superseded: int
) -> None:
    history.judge(history.propose(CHANGE), SUPPORTED)
    import_(history, told(history, versions=on("nightly-of-lab"), at=at))
    found = findings(history)
    other = found[2 - superseded]
    assert other.status is HOLDS
    assert found[superseded - 1].superseded_by_id == other.id
    assert found[superseded - 1].status_reason == (
        f"F-00{other.id} says it on other versions, where it was measured later."
    )


def test_verdicts_that_come_in_again_move_the_order_where_only_the_time_tells(history: History) -> None:
    hypothesis = history.propose(CHANGE)
    first = history.judge(hypothesis, SUPPORTED)
    file = json.loads(told(history, versions=on("nightly-of-lab"), at=LONG_AGO))
    import_(history, json.dumps(file))
    file["verdicts"][0]["at"] = FAR_AHEAD
    import_(history, json.dumps(file))
    assert [each.status for each in findings(history)] == [SUPERSEDED, HOLDS]
    history.judge(hypothesis, SUPPORTED, reproduces=first.experiment_id)
    assert findings(history)[0].status is HOLDS, "its target has its versions now"


def test_going_back_to_older_versions_here_supersedes_nothing_newer_and_makes_it_stale(
    history: History,
) -> None:
    hypothesis = history.propose(CHANGE)
    newer = {**VERSIONS, "torch": "2.14.0"}
    first = history.judge(hypothesis, SUPPORTED, versions=newer)
    history.judge(hypothesis, REFUTED, effect=NO_GAIN, reproduces=first.experiment_id)
    new, old = findings(history)
    assert (new.status, new.stale_cause, new.superseded_by_id) == (STALE, "versions", None)
    assert new.status_reason == (
        f"{machine(TARGET)} has other versions since E-0002 (torch 2.14.0 → 2.13.0), "
        "with which F-002 says otherwise."
    )
    assert (old.status, old.superseded_by_id) == (HOLDS, None)
    history.judge(hypothesis, SUPPORTED, reproduces=first.experiment_id, versions=newer)
    new, old = findings(history)
    assert (new.status, old.status, old.superseded_by_id) == (HOLDS, SUPERSEDED, new.id)
    history.judge(hypothesis, REFUTED, effect=NO_GAIN, reproduces=first.experiment_id)
    new, old = findings(history)
    assert (new.status, old.status, old.superseded_by_id) == (STALE, HOLDS, None)


def test_what_holds_after_a_downgrade_is_not_superseded_by_what_went_stale_with_it(history: History) -> None:
    hypothesis = history.propose(CHANGE)
    first = history.judge(hypothesis, SUPPORTED, versions={**VERSIONS, "torch": "2.14.0"})
    history.judge(hypothesis, REFUTED, effect=NO_GAIN, reproduces=first.experiment_id)
    again = {"outcome": "refuted", "effect_log": 0.0, "low_log": -0.02, "high_log": 0.02}
    import_(history, told(history, **again, versions=dict(VERSIONS), at=LONG_AGO))
    new, old = findings(history)
    assert (new.status, new.stale_cause) == (STALE, "versions")
    assert (old.status, old.superseded_by_id) == (HOLDS, None)


def test_what_is_imported_after_a_downgrade_is_not_born_superseded_by_what_went_stale_with_it(
    history: History,
) -> None:
    history.judge(history.propose(CHANGE), SUPPORTED, versions={**VERSIONS, "torch": "2.14.0"})
    history.judge(history.propose({"serving.compile": "default"}), SUPPORTED)
    import_(history, told(history, versions=dict(VERSIONS), at=LONG_AGO))
    new, _, there = findings(history)
    assert (new.status, new.superseded_by_id) == (STALE, None)
    assert (there.status, there.superseded_by_id) == (HOLDS, None)


def elsewhere_on(history: History, torch: str, change: dict[str, Json] = OTHER) -> None:
    """A verdict on another change: its target has this version of torch since."""
    number = history.propose(change)
    history.judge(number, SUPPORTED, versions={**VERSIONS, "torch": torch})


def on_two_versions(history: History) -> None:
    """F-001 helps with torch 2.13, F-002 does not with 2.14 and supersedes it."""
    hypothesis = history.propose(CHANGE)
    first = history.judge(hypothesis, SUPPORTED)
    newer = {**VERSIONS, "torch": "2.14.0"}
    history.judge(hypothesis, REFUTED, effect=NO_GAIN, reproduces=first.experiment_id, versions=newer)


def test_going_back_without_a_test_of_the_change_lets_what_was_superseded_hold_again(
    history: History,
) -> None:
    on_two_versions(history)
    elsewhere_on(history, "2.13.0")
    old, new, _ = findings(history)
    assert (old.status, old.status_reason, old.superseded_by_id) == (HOLDS, None, None)
    assert (new.status, new.stale_cause) == (STALE, "versions")
    assert new.status_reason == (
        f"{machine(TARGET)} has other versions since E-0003 (torch 2.14.0 → 2.13.0), "
        "with which F-001 says otherwise."
    )
    with history.database.read() as session:
        said = session.scalars(select(Event.text).where(Event.kind == EventKind.FINDING_CHANGED)).all()
    assert f"F-001 holds again instead of F-002: {machine(TARGET)} has its versions since E-0003." in said
    for torch, change, one, other in (
        ("2.14.0", {"serving.dtype": "bfloat16"}, STALE, HOLDS),
        ("2.13.0", {"serving.threads": 4}, HOLDS, STALE),
    ):
        elsewhere_on(history, torch, change)
        old, new, *_ = findings(history)
        assert (old.status, new.status) == (one, other)
        stale = old if one is STALE else new
        assert str(stale.status_reason).endswith(f"with which F-00{3 - stale.id} says otherwise.")


def test_going_back_by_way_of_other_versions_lets_what_was_superseded_hold_again(history: History) -> None:
    on_two_versions(history)
    elsewhere_on(history, "2.15.0")
    assert [each.status for each in findings(history)][:2] == [SUPERSEDED, STALE]
    elsewhere_on(history, "2.13.0", {"serving.threads": 4})
    assert [each.status for each in findings(history)][:2] == [HOLDS, STALE]


def test_going_back_past_two_versions_lets_the_one_with_those_of_now_hold_again(history: History) -> None:
    on_two_versions(history)
    newest = {**VERSIONS, "torch": "2.15.0"}
    history.judge(1, SUPPORTED, reproduces=1, versions=newest)
    assert [(each.status, each.superseded_by_id) for each in findings(history)] == [
        (SUPERSEDED, 2),
        (SUPERSEDED, 3),
        (HOLDS, None),
    ]
    elsewhere_on(history, "2.13.0")
    assert [each.status for each in findings(history)][:3] == [HOLDS, SUPERSEDED, STALE]


def test_what_was_superseded_by_what_a_note_closed_stays_so(history: History) -> None:
    on_two_versions(history)
    with history.database.write() as session:
        add_note(session, "Another cooler.", stale="threads")
    elsewhere_on(history, "2.13.0")
    old, new, _ = findings(history)
    assert (old.status, new.status, new.stale_cause) == (SUPERSEDED, STALE, "note")


def test_one_that_waits_for_its_versions_supersedes_nothing_meanwhile(history: History) -> None:
    hypothesis = history.propose(CHANGE)
    newer = {**VERSIONS, "torch": "2.14.0"}
    first = history.judge(hypothesis, SUPPORTED, versions=newer)
    history.judge(hypothesis, SUPPORTED, reproduces=first.experiment_id)
    import_(history, told(history, at=LONG_AGO))  # its own verdict, told again by another database
    assert [each.status for each in findings(history)] == [STALE, HOLDS]


def test_when_each_finding_was_measured_is_read_once(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_two_versions(history)
    read: list[int] = []

    def facts_read(session: Session, finding_id: int) -> list[VerdictFact]:
        read.append(finding_id)
        return facts_of_finding(session, finding_id)

    with history.database.write() as session:
        for name in ("one", "another", "a third"):
            import_verdicts(session, read_file(told(history, versions=on(name)), "lab.json"))
        for each in session.scalars(select(Finding)):
            each.status, each.superseded_by_id = HOLDS, None
        monkeypatch.setattr(superseding, "facts_of_finding", facts_read)
        superseding.supersede(session, session.get_one(Finding, 1), is_now=False)
    assert sorted(read) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("one", "other", "order"),
    [
        ({"vllm": "0.10.0"}, {"vllm": "0.9.2"}, 1),
        ({"vllm": "0.9.2"}, {"vllm": "0.10.0"}, -1),
        ({"nvidia driver": "580.95.05"}, {"nvidia driver": "580.105.08"}, -1),
        ({"vllm": "0.11.1.dev12+gabc"}, {"vllm": "0.11.1"}, -1),
        ({"torch": "2.13.0+cu130"}, {"torch": "2.13.0+cu128"}, 0),
        ({"torch": "2.14.0", "vllm": "0.9.0"}, {"torch": "2.13.0", "vllm": "0.10.0"}, 0),
        ({"torch": "2.14.0", "vllm": "a fork"}, {"torch": "2.13.0", "vllm": "0.10.0"}, 1),
        ({"torch": "2.14.0"}, {"vllm": "0.10.0"}, 0),
        ({"kernel": "of today"}, {"kernel": "of yesterday"}, 0),
    ],
)
def test_versions_have_the_order_of_what_both_name(
    one: dict[str, str], other: dict[str, str], order: int
) -> None:
    assert newer_by_versions(one, other) == order
    assert newer_by_versions(other, one) == -order


def test_a_verdict_that_tells_no_time_is_refused_and_one_without_a_zone_is_read_in_utc(
    history: History,
) -> None:
    history.judge(history.propose(CHANGE), SUPPORTED)
    with pytest.raises(UsageError, match=r"verdicts\.0\.at: it is no time"):
        read_file(told(history, at="last week"), "lab.json")
    (verdict,) = read_file(told(history, at="2026-01-02T03:04:05"), "lab.json").verdicts
    measured_at = verdict.fact(1, "lab").measured_at
    assert measured_at is not None
    assert measured_at.isoformat() == "2026-01-02T03:04:05+00:00"
