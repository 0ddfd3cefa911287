"""Verdicts of another database, findings of the user's own, and findings that their versions left behind."""

import json
from pathlib import Path

import pytest
from sqlalchemy import select

from configs.errors import UsageError
from db.event_kinds import EventKind
from db.models import Environment, Event, Finding, Hypothesis, ImportedVerdict, Launch
from db.states import EvidenceRelation, FindingStatus, VerdictOutcome
from knowledge.acts.notes import add_note
from knowledge.findings.exchange import VerdictFile, read_file
from knowledge.findings.importing import Imported, export_verdicts, import_verdicts
from knowledge.findings.staleness import moved_on
from knowledge.findings.told import Telling, take_back, tell
from knowledge.findings.verdict_fact import Saying
from knowledge.machines import machine
from knowledge.queries.found.finding_detail import FindingDetail, finding_detail
from tests.history.campaign_history import TARGET, VERSIONS, History

SUPPORTED, REFUTED = VerdictOutcome.SUPPORTED, VerdictOutcome.REFUTED
NO_GAIN = (0.0, -0.01, 0.01)
FAR_AHEAD = "2101-01-01T00:00:00+00:00"


@pytest.fixture
def elsewhere(tmp_path: Path) -> History:
    """Another database, in which the same can be tested."""
    found = History(tmp_path / "elsewhere")
    yield found  # type: ignore[misc]
    found.close()


def told_by(history: History, origin: str = "lab") -> VerdictFile:
    """Its verdicts, by way of the file."""
    with history.database.read() as session:
        file = export_verdicts(session, origin)
    return read_file(file.model_dump_json(), "verdicts.json")


def taken_in(history: History, file: VerdictFile) -> Imported:
    with history.database.write() as session:
        return import_verdicts(session, file)


def findings(history: History) -> list[Finding]:
    with history.database.read() as session:
        return list(session.scalars(select(Finding).order_by(Finding.id)))


def detail(history: History, number: int = 1) -> FindingDetail:
    with history.database.read() as session:
        return finding_detail(session, number)


def said(history: History, kind: EventKind) -> list[str]:
    with history.database.read() as session:
        return list(session.scalars(select(Event.text).where(Event.kind == kind).order_by(Event.id)))


def test_a_value_of_a_wrong_type_is_refused_with_the_types_that_would_do(elsewhere: History) -> None:
    elsewhere.judge(elsewhere.propose({"serving.threads": 1}), SUPPORTED)
    file = json.loads(told_by(elsewhere).model_dump_json())
    for change, said in (
        (
            {"control": {"a": [1]}},
            "verdicts.0.control.a: it should be true or false, a whole number, a number or text",
        ),
        (
            {"workload": {"a": {}}},
            "verdicts.0.workload.a: it should be true or false, a whole number, a number, text",
        ),
        ({"effect_log": "much"}, "verdicts.0.effect_log: input should be a valid number"),
        ({"launches": 1.5}, "verdicts.0.launches: input should be a valid integer"),
    ):
        wrong = {**file, "verdicts": [{**file["verdicts"][0], **change}]}
        with pytest.raises(UsageError) as caught:
            read_file(json.dumps(wrong), "x.json")
        assert f"x.json is no file of verdicts: {said}" in caught.value.message


def test_a_verdict_that_contradicts_comes_in_and_the_finding_says_both(
    history: History, elsewhere: History
) -> None:
    history.judge(history.propose({"serving.threads": 1}), SUPPORTED)
    elsewhere.judge(elsewhere.propose({"serving.threads": 1}), REFUTED, effect=NO_GAIN)
    done = taken_in(history, told_by(elsewhere))
    assert (done.new, done.known) == (1, 0)
    found = detail(history)
    assert found.status is FindingStatus.CONTRADICTED
    assert (found.says_so, found.says_not) == (1, 1)
    assert [(each.origin, each.relation) for each in found.evidence] == [
        (None, EvidenceRelation.SUPPORTS),
        ("lab", EvidenceRelation.CONTRADICTS),
    ]
    assert found.pooled is not None
    assert [each.id for each in found.pooled.campaigns] == ["C-1", "C-1 of lab"]
    assert found.pooled.i_squared is not None
    assert found.pooled.i_squared > 0.8  # ±2 % each, and 10 % apart
    (question,) = said(history, EventKind.FINDING_DISPUTED)
    assert question.startswith("Verdicts within F-001 disagree")
    assert said(history, EventKind.FINDING_IMPORTED) == [
        "1 verdict of lab imported; findings: 0 new, 1 changed."
    ]


def test_a_verdict_that_agrees_is_an_independent_replication_and_a_rerun_is_none(
    history: History, elsewhere: History
) -> None:
    hypothesis = history.propose({"serving.threads": 1})
    first = history.judge(hypothesis, SUPPORTED)
    history.judge(hypothesis, SUPPORTED, reproduces=first.experiment_id)
    assert (detail(history).says_so, detail(history).strength) == (1, "reproduced")
    elsewhere.judge(elsewhere.propose({"serving.threads": 1}), SUPPORTED, effect=(-0.11, -0.13, -0.09))
    taken_in(history, told_by(elsewhere))
    found = detail(history)
    assert found.says_so == 2
    assert found.pooled is not None
    assert [each.verdicts for each in found.pooled.campaigns] == [2, 1]
    assert found.pooled.predicted is not None
    assert found.strength == "replicated"


def test_one_campaign_is_told_as_it_is_without_a_spread_between_campaigns(history: History) -> None:
    history.judge(history.propose({"serving.threads": 1}), SUPPORTED)
    found = detail(history)
    assert found.pooled is not None
    assert found.pooled.effect == found.pooled.campaigns[0].effect == found.effect
    assert found.pooled.spread is found.pooled.i_squared is found.pooled.predicted is None


def test_on_other_hardware_it_is_a_finding_of_its_own_and_a_dispute(
    history: History, elsewhere: History
) -> None:
    history.judge(history.propose({"serving.threads": 1}), SUPPORTED)
    hypothesis = elsewhere.propose({"serving.threads": 1})
    elsewhere.judge(hypothesis, REFUTED, effect=NO_GAIN, target="cpu:Other CPU:64 cores")
    taken_in(history, told_by(elsewhere))
    here, there = findings(history)
    assert (here.status, there.status) == (FindingStatus.HOLDS, FindingStatus.HOLDS)
    assert there.campaign_id is None
    assert said(history, EventKind.FINDING_DISPUTED) == [
        "F-001 says that it helps, F-002 that it does not help: it holds on Example CPU, not on Other CPU: "
        "is it the bandwidth, the clocks or the kernels that run there?"
    ]


def test_importing_twice_or_ones_own_verdicts_changes_nothing(history: History, elsewhere: History) -> None:
    history.judge(history.propose({"serving.threads": 1}), SUPPORTED)
    elsewhere.judge(elsewhere.propose({"serving.threads": 1}), SUPPORTED, effect=(-0.11, -0.13, -0.09))
    taken_in(history, told_by(elsewhere))
    before = detail(history)
    assert taken_in(history, told_by(elsewhere, "lab-2")).new == 0
    assert taken_in(history, told_by(history)) == Imported(0, 1, ())
    assert detail(history) == before
    with history.database.read() as session:
        assert len(session.scalars(select(ImportedVerdict.id)).all()) == 1
    assert len(said(history, EventKind.FINDING_IMPORTED)) == 1


def test_what_comes_first_from_elsewhere_is_replicated_by_a_verdict_of_here(
    history: History, elsewhere: History
) -> None:
    elsewhere.judge(elsewhere.propose({"serving.threads": 1}), SUPPORTED)
    taken_in(history, told_by(elsewhere))
    history.judge(history.propose({"serving.threads": 1}), SUPPORTED)
    (found,) = findings(history)
    assert found.strength == "replicated"
    assert [(e.origin, e.relation) for e in detail(history).evidence] == [
        (None, EvidenceRelation.SUPPORTS),
        ("lab", EvidenceRelation.REPLICATES),
    ]


def test_a_note_closes_imported_evidence_too(history: History, elsewhere: History) -> None:
    elsewhere.judge(elsewhere.propose({"serving.threads": 1}), SUPPORTED)
    taken_in(history, told_by(elsewhere))
    noted(history)
    history.judge(history.propose({"serving.threads": 1}), SUPPORTED)
    old, new = findings(history)
    assert (old.status, old.superseded_by_id) == (FindingStatus.STALE, new.id)
    assert [each.origin for each in detail(history, new.id).evidence] == [None]


def noted(history: History) -> None:
    """What is known of threads is stale from now on."""
    with history.database.write() as session:
        add_note(session, "Another cooler.", stale="threads")


@pytest.mark.parametrize("outcome", [SUPPORTED, REFUTED])
def test_an_imported_verdict_from_before_a_note_bears_on_what_the_note_made_stale(
    history: History, elsewhere: History, outcome: VerdictOutcome
) -> None:
    history.judge(history.propose({"serving.threads": 1}), SUPPORTED)
    effect = (-0.11, -0.13, -0.09) if outcome is SUPPORTED else NO_GAIN
    elsewhere.judge(elsewhere.propose({"serving.threads": 1}), outcome, effect=effect)
    noted(history)
    done = taken_in(history, told_by(elsewhere))
    (stale,) = findings(history)
    assert (stale.status, stale.superseded_by_id) == (FindingStatus.STALE, None)
    assert stale.status_reason == "Something changed outside: Another cooler."
    assert [each.origin for each in detail(history).evidence] == [None, "lab"]
    assert [(each.finding_id, each.added) for each in done.findings] == [(1, False)]
    assert said(history, EventKind.FINDING_CHANGED)[-1].endswith(
        "It stays stale. Something changed outside: Another cooler."
    )
    assert said(history, EventKind.FINDING_DISPUTED) == []
    assert taken_in(history, told_by(elsewhere)).findings == ()


def test_it_does_so_beside_what_was_found_after_the_note(history: History, elsewhere: History) -> None:
    first = history.judge(history.propose({"serving.threads": 1}), SUPPORTED)
    elsewhere.judge(elsewhere.propose({"serving.threads": 1}), SUPPORTED, effect=(-0.11, -0.13, -0.09))
    noted(history)
    history.judge(first.hypothesis_id, SUPPORTED, reproduces=first.experiment_id)
    taken_in(history, told_by(elsewhere))
    stale, new = findings(history)
    assert (stale.status, stale.superseded_by_id) == (FindingStatus.STALE, new.id)
    assert [each.origin for each in detail(history, stale.id).evidence] == [None, "lab"]
    assert [each.origin for each in detail(history, new.id).evidence] == [None]
    assert new.strength != "replicated"


def test_it_bears_on_the_first_of_two_that_were_closed_after_it(history: History, elsewhere: History) -> None:
    first = history.judge(history.propose({"serving.threads": 1}), SUPPORTED)
    elsewhere.judge(elsewhere.propose({"serving.threads": 1}), SUPPORTED, effect=(-0.11, -0.13, -0.09))
    noted(history)
    history.judge(first.hypothesis_id, SUPPORTED, reproduces=first.experiment_id)
    noted(history)
    taken_in(history, told_by(elsewhere))
    assert [len(detail(history, each.id).evidence) for each in findings(history)] == [2, 1]


def test_an_imported_verdict_from_after_a_note_makes_a_new_finding(
    history: History, elsewhere: History
) -> None:
    history.judge(history.propose({"serving.threads": 1}), SUPPORTED)
    noted(history)
    elsewhere.judge(elsewhere.propose({"serving.threads": 1}), SUPPORTED, effect=(-0.11, -0.13, -0.09))
    (later,) = told_by(elsewhere).verdicts
    taken_in(history, VerdictFile(origin="lab", verdicts=(later.model_copy(update={"at": FAR_AHEAD}),)))
    stale, new = findings(history)
    assert (stale.superseded_by_id, new.status) == (new.id, FindingStatus.HOLDS)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"effect_log": 1.0}, "the effect lies outside its interval"),
        ({"effect_log": 0.5, "low_log": 0.4, "high_log": 0.6}, "an interval that is not wholly a gain"),
        ({"effect_log": None, "low_log": None, "high_log": None}, "an interval that is not wholly a gain"),
        ({"low_log": None}, "an interval has two ends"),
        ({"effect_log": None}, "an interval is one of an effect"),
        ({"min_effect": 2}, "min_effect"),
        ({"metric": "happiness"}, "metric"),
        ({"samples_digest": "no"}, "samples_digest"),
        ({"outcome": "splendid"}, "outcome"),
        ({"candidate": {"serving.threads": {"a": 1}}}, "candidate"),
        ({"more": 1}, "more"),
        ({"reason": "\x1b[2J"}, "it holds characters that are no text"),
        ({"target": "gpu:\u202eH200"}, "it holds characters that are no text"),
        ({"workload": {"concurrency": 10**400}}, "workload.concurrency: it is a number beyond"),
        ({"experiment": "E-1; rm"}, "experiment"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_the_place(
    history: History, change: dict[str, object], told: str
) -> None:
    history.judge(history.propose({"serving.threads": 1}), SUPPORTED)
    data = json.loads(told_by(history).model_dump_json())
    data["verdicts"][0] |= change
    with pytest.raises(UsageError, match=r"verdicts\.json is no file of verdicts") as refused:
        read_file(json.dumps(data), "verdicts.json")
    assert told in refused.value.message


@pytest.mark.parametrize("text", ["", "{}", "[]", "no", '{"format": "other", "origin": "x", "verdicts": []}'])
def test_what_is_no_such_file_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no file of verdicts"):
        read_file(text, "x.json")


def test_what_a_log_left_in_a_reason_is_told_without_what_would_steer_a_terminal(history: History) -> None:
    broken = history.propose({"serving.compile": "default"})
    failure = ("build_failed", "\x1b[31mno compiler\x1b[0m" + "x" * 5000)
    history.judge(broken, VerdictOutcome.INFEASIBLE, effect=None, failure=failure)
    (verdict,) = told_by(history).verdicts
    assert verdict.reason.startswith("[31mno compiler[0mxxx")
    assert len(verdict.reason) == 4000


def test_a_verdict_of_a_rerun_with_other_versions_makes_what_was_found_before_stale(history: History) -> None:
    history.judge(history.propose({"serving.threads": 1}), SUPPORTED)
    other = history.propose({"serving.compile": "default"})
    newer = {**VERSIONS, "torch": "2.14.0"}
    second = history.judge(other, SUPPORTED, versions=newer)
    old, new = findings(history)
    assert (old.status, old.stale_cause) == (FindingStatus.STALE, "versions")
    assert old.status_reason == (
        f"{machine(TARGET)} has other versions since E-0002 (torch 2.13.0 → 2.14.0), "
        "and it was not tested with these."
    )
    assert new.status is FindingStatus.HOLDS

    history.judge(other, SUPPORTED, reproduces=second.experiment_id)  # back to the older versions
    assert findings(history)[0].status is FindingStatus.HOLDS
    assert findings(history)[0].status_reason is None


def test_what_a_stale_finding_says_is_tested_again_on_newer_versions_and_superseded(history: History) -> None:
    hypothesis = history.propose({"serving.threads": 1})
    first = history.judge(hypothesis, SUPPORTED)
    newer = {**VERSIONS, "torch": "2.14.0"}
    history.judge(history.propose({"serving.compile": "default"}), SUPPORTED, versions=newer)
    history.judge(hypothesis, SUPPORTED, reproduces=first.experiment_id, versions=newer)
    old = findings(history)[0]
    assert (old.status, old.superseded_by_id) == (FindingStatus.SUPERSEDED, 3)


def test_another_driver_makes_it_stale_and_another_program_of_ours_does_not(history: History) -> None:
    def run_with(driver: str, change: dict[str, object]) -> None:
        judged = history.judge(history.propose(change), SUPPORTED, learn=False)  # type: ignore[arg-type]
        with history.database.write() as session:
            data = {"machine": {"gpu": {"driver": driver}}}
            session.add(Environment(digest=driver.ljust(64, "0"), data=data))
            session.flush()
            for launch in session.scalars(select(Launch).where(Launch.experiment_id == judged.experiment_id)):
                launch.environment_digest = driver.ljust(64, "0")
        with history.database.write() as session:
            from knowledge.findings.keeping import update_findings

            update_findings(session, judged.verdict_id)

    run_with("580.10", {"serving.threads": 1})
    assert findings(history)[0].scope["versions"]["nvidia driver"] == "580.10"
    run_with("581.02", {"serving.compile": "default"})
    old, _ = findings(history)
    assert old.status is FindingStatus.STALE
    assert "nvidia driver 580.10 → 581.02" in str(old.status_reason)


def test_versions_that_only_one_names_have_not_moved() -> None:
    assert moved_on({"torch": "1", "vllm": "2"}, {"torch": "1", "python": "3"}) == ()
    assert moved_on({"torch": "1"}, {"torch": "2"}) == ("torch 1 → 2",)


def test_what_the_user_writes_down_is_a_finding_marked_as_theirs_in_the_campaigns_scope(
    history: History,
) -> None:
    telling = Telling("  One thread is\nenough ", ("serving.threads=1",), effect="tpot=-5%±2%")
    with history.database.write() as session:
        number = tell(session, telling, history.campaign_id).id
    found = detail(history, number)
    assert found.claim == "One thread is enough."
    assert (found.rule, found.strength, found.status) == ("R0-told", "told", FindingStatus.HOLDS)
    assert (found.scope["target"], found.scope["lever"]) == (TARGET, "threads")
    assert found.effect is not None
    assert found.effect.low is not None
    assert found.effect.relative == pytest.approx(-0.05)
    assert found.effect.low < -0.08
    assert (found.evidence, found.pooled) == ((), None)


def test_what_the_user_told_is_disputed_by_what_is_measured(history: History) -> None:
    telling = Telling("One thread is no faster.", ("serving.threads=1",), Saying.DOES_NOT_HELP)
    with history.database.write() as session:
        tell(session, telling, history.campaign_id)
    history.judge(history.propose({"serving.threads": 1}), SUPPORTED)
    (question,) = said(history, EventKind.FINDING_DISPUTED)
    assert question.startswith("F-002 says that it helps, F-001 that it does not help, in the same scope")


def test_only_what_the_user_wrote_can_be_withdrawn_and_only_once(history: History) -> None:
    history.judge(history.propose({"serving.threads": 1}), SUPPORTED)
    with history.database.write() as session:
        own = tell(session, Telling("It is so."), history.campaign_id).id
    with history.database.write() as session, pytest.raises(UsageError, match="F-001 was measured"):
        take_back(session, 1, "no")
    with history.database.write() as session:
        assert take_back(session, own, "I was wrong.").status_reason == "Withdrawn by the user: I was wrong."
    with history.database.write() as session, pytest.raises(UsageError, match="withdrawn already"):
        take_back(session, own, "again")
    with history.database.write() as session:
        assert tell(session, Telling("It is so."), history.campaign_id).id == own + 1  # it may be said anew


@pytest.mark.parametrize(
    ("telling", "refused"),
    [
        (Telling(" "), "is empty"),
        (Telling("x" * 2001), "2001 characters"),
        (Telling("It is so.", ("serving.threads",)), "serving.threads"),
        (Telling("It is so.", ("serving.nothing=1",)), "serving.nothing"),
        (Telling("It is so.", effect="tpot=5%"), "tpot=5%"),
        (Telling("It is so.", says=Saying.DOES_NOT_RUN, effect="tpot=-5%"), "does not run"),
        (Telling("It is so.", versions=("torch",)), "no version of a package"),
    ],
)
def test_what_can_not_be_meant_is_refused_and_nothing_is_written(
    history: History, telling: Telling, refused: str
) -> None:
    with history.database.write() as session, pytest.raises(UsageError, match=refused):
        tell(session, telling, history.campaign_id)
    assert findings(history) == []


def test_saying_the_same_twice_names_the_first_and_without_a_campaign_the_place_must_be_said(
    history: History,
) -> None:
    with history.database.write() as session:
        tell(session, Telling("It is so."), history.campaign_id)
    with history.database.write() as session, pytest.raises(UsageError, match="F-001 says that already"):
        tell(session, Telling("It is so."), history.campaign_id)
    with (
        history.database.write() as session,
        pytest.raises(UsageError, match="where the finding holds") as no,
    ):
        tell(session, Telling("It is so.", model="m"), None)
    assert no.value.hint == "Give --target with it."
    with history.database.read() as session:
        assert session.scalars(select(Hypothesis.id)).all() == []
