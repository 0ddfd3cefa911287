"""What a later campaign begins with, read from the database: outcomes, their findings, what they rule out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.campaign.known.reading_facts import read_facts
from agent.campaign.known.ruled_out import asked_again, rules_out
from agent.surrogate.carried import Carried
from configs.errors import UsageError
from db import events
from db.event_kinds import EventKind
from db.models import Campaign, Finding
from db.states import FindingStatus, VerdictOutcome
from experiments.measurement.evidence import Json
from experiments.space.configuration import KnobValue
from knowledge.findings.exchange import read_file
from knowledge.findings.importing import export_verdicts, import_verdicts
from knowledge.findings.staleness import StaleCause
from knowledge.findings.told import Telling, tell
from knowledge.findings.verdict_fact import Saying
from knowledge.queries.order.carried import carried_view
from tests.history.campaign_history import BASE, SPACE, VERSIONS, History

SUPPORTED, REFUTED = VerdictOutcome.SUPPORTED, VerdictOutcome.REFUTED
NO_GAIN = (0.0, -0.01, 0.01)
ONE_THREAD = SPACE.with_change(BASE, {"serving.threads": 1})


def later(history: History, fingerprint: str = "f" * 64, **changed: Json) -> int:
    """A campaign after the first; `changed` are figures of its workload, or its target."""
    campaign_id = history.start("later", fingerprint)
    with history.database.write() as session:
        campaign = session.get_one(Campaign, campaign_id)
        campaign.target = str(changed.pop("target", campaign.target))
        plan = dict(campaign.spec["plan"])
        plan["workload"] = {**plan["workload"], **changed}
        campaign.spec = {**campaign.spec, "plan": plan}
    return campaign_id


def begun_with(history: History, campaign_id: int) -> tuple[Carried, ...]:
    with history.database.read() as session:
        return read_facts(session, campaign_id).carried


def told_of_trial_0(history: History, tpot_ms: float, campaign_id: int = 1) -> None:
    with history.database.write() as session:
        data: dict[str, Json] = {"baseline": {"tpot_ms": tpot_ms}}
        events.append(session, EventKind.CAMPAIGN_BASELINE, "Trial 0.", campaign_id=campaign_id, data=data)


def test_an_outcome_comes_with_the_finding_that_it_bears_on(history: History) -> None:
    history.judge(history.propose({"serving.threads": 1}), SUPPORTED)
    (found,) = begun_with(history, later(history))
    assert (found.finding, found.scope, found.trial.candidate) == ("F-001", "C-1", ONE_THREAD)
    assert found.is_here
    assert begun_with(history, 1) == ()


def test_another_workload_or_target_says_less_and_is_read_by_what_its_trial_0_took(history: History) -> None:
    history.judge(history.propose({"serving.threads": 1}), SUPPORTED)
    others = [later(history, concurrency=16), later(history, target="gpu:NVIDIA L4:24 GB")]
    assert [begun_with(history, each) for each in others] == [(), ()], "trial 0 is not told"
    told_of_trial_0(history, 8.0)
    busier, elsewhere = (begun_with(history, each)[0] for each in others)
    (here,) = begun_with(history, later(history))
    assert (busier.same_workload, busier.distance, busier.tpot_ms) == (False, pytest.approx(1), 8.0)
    assert (elsewhere.same_hardware, elsewhere.same_workload) == (False, True)
    assert here.share < elsewhere.share == pytest.approx(busier.share)


def test_what_a_note_made_stale_or_was_withdrawn_is_left_out_and_other_versions_say_less(
    history: History,
) -> None:
    history.judge(history.propose({"serving.threads": 1}), SUPPORTED)
    campaign_id = later(history)
    (before,) = begun_with(history, campaign_id)
    for status, cause, left in (
        (FindingStatus.STALE, StaleCause.VERSIONS, 1),
        (FindingStatus.STALE, StaleCause.NOTE, 0),
        (FindingStatus.WITHDRAWN, None, 0),
    ):
        with history.database.write() as session:
            finding = session.get_one(Finding, 1)
            finding.status, finding.stale_cause = status, cause
        found = begun_with(history, campaign_id)
        assert len(found) == left
        assert all(each.share > before.share for each in found)


def test_verdicts_of_another_database_are_carried_too_and_rule_nothing_out(
    history: History, tmp_path: Path
) -> None:
    elsewhere = History(tmp_path / "elsewhere")
    elsewhere.judge(elsewhere.propose({"serving.threads": 1}), REFUTED, effect=NO_GAIN)
    with elsewhere.database.read() as session:
        file = export_verdicts(session, "lab")
    elsewhere.close()
    with history.database.write() as session:
        import_verdicts(session, file)
    with history.database.read() as session:
        facts = read_facts(session, 1)
    (found,) = facts.carried
    assert (found.scope, found.finding, found.trial.effect_log) == ("C-1 of lab", "F-001", 0.0)
    assert rules_out(facts.ruled_out, BASE, ONE_THREAD, 1.0) is None
    assert "another database" in asked_again(facts.ruled_out, BASE, ONE_THREAD, 1.0)


@pytest.mark.parametrize(
    ("control", "candidate"),
    [
        ({}, {"no.such_knob": 1}),
        ({"serving.threads": "many"}, {"serving.threads": 1}),
        ({"drafting.method": "mtp"}, {"drafting.method": "mtp", "drafting.draft_tokens": 1e300}),
    ],
)
def test_a_verdict_on_what_this_space_has_no_place_for_is_not_carried(
    history: History, tmp_path: Path, control: dict[str, KnobValue], candidate: dict[str, KnobValue]
) -> None:
    elsewhere = History(tmp_path / "elsewhere")
    elsewhere.judge(elsewhere.propose({"serving.threads": 1}), SUPPORTED)
    with elsewhere.database.read() as session:
        file = export_verdicts(session, "lab")
    elsewhere.close()
    hostile = file.verdicts[0].model_copy(update={"control": control, "candidate": candidate})
    with history.database.write() as session:
        imported = import_verdicts(session, file.model_copy(update={"verdicts": (hostile,)}))
    assert imported.new == 1
    assert begun_with(history, 1) == ()


def test_a_number_that_no_float_holds_is_refused_with_its_place(history: History) -> None:
    history.judge(history.propose({"serving.threads": 1}), SUPPORTED)
    with history.database.read() as session:
        told = json.loads(export_verdicts(session, "lab").model_dump_json())
    told["verdicts"][0]["workload"]["concurrency"] = 10**400
    with pytest.raises(UsageError, match=r"verdicts\.0\.workload\.concurrency"):
        read_file(json.dumps(told), "lab.json")


def test_what_was_refuted_there_is_ruled_out_in_the_same_scope_and_asked_again_in_another(
    history: History,
) -> None:
    history.judge(history.propose({"serving.threads": 1}), REFUTED, effect=NO_GAIN)
    same, busier = later(history), later(history, concurrency=16)
    with history.database.read() as session:
        here, there, itself = (read_facts(session, each).ruled_out for each in (same, busier, 1))
    ruled = rules_out(here, BASE, ONE_THREAD, 0.9)
    assert ruled is not None
    assert ruled.finding == "F-001"
    assert rules_out(there, BASE, ONE_THREAD, 0.9) is None
    said = asked_again(there, BASE, ONE_THREAD, 0.9)
    assert said == (
        "F-001 says that it does not help with 1 request at once; asked again since here it is 16 "
        "requests at once"
    )
    assert itself == ()


def test_what_was_ruled_out_by_a_larger_gain_than_is_wanted_here_is_asked_again(history: History) -> None:
    history.judge(history.propose({"serving.threads": 1}), REFUTED, effect=NO_GAIN)
    for asked, ruled in ((0.1, False), (0.01, True)):
        with history.database.write() as session:
            finding = session.get_one(Finding, 1)
            finding.scope = {**finding.scope, "min_effect": asked}
        with history.database.read() as session:
            here = read_facts(session, later(history)).ruled_out
        assert (rules_out(here, BASE, ONE_THREAD, 0.9) is not None) is ruled
        said = (
            "F-001 says that it does not help with 10 % asked for; asked again since here it is 3 % asked for"
        )
        assert (asked_again(here, BASE, ONE_THREAD, 0.9) == said) is not ruled


def test_what_was_ruled_out_with_other_versions_is_asked_again_and_these_are_named(history: History) -> None:
    history.judge(history.propose({"serving.threads": 1}), REFUTED, effect=NO_GAIN)
    campaign_id = later(history)
    another = history.propose({"serving.compile": "default"}, campaign_id=campaign_id)
    history.judge(another, SUPPORTED, versions={**VERSIONS, "torch": "9.9"})
    with history.database.read() as session:
        assert session.get_one(Finding, 1).stale_cause == StaleCause.VERSIONS
        here = read_facts(session, campaign_id).ruled_out
    assert rules_out(here, BASE, ONE_THREAD, 0.9) is None
    assert asked_again(here, BASE, ONE_THREAD, 0.9) == (
        f"F-001 says that it does not help with torch {VERSIONS['torch']}; asked again since here it is "
        "torch 9.9"
    )


def test_what_runs_on_another_target_tells_nothing_of_the_versions_on_this_one(history: History) -> None:
    history.judge(history.propose({"serving.threads": 1}), REFUTED, effect=NO_GAIN)
    campaign_id = later(history)
    another = history.propose({"serving.compile": "default"}, campaign_id=campaign_id)
    history.judge(another, SUPPORTED, versions={**VERSIONS, "torch": "9.9"}, target="cpu:another")
    with history.database.read() as session:
        here = read_facts(session, campaign_id).ruled_out
    assert rules_out(here, BASE, ONE_THREAD, 0.9) is not None


def test_what_the_user_wrote_down_rules_out_the_change_that_it_names_whatever_else_is_set(
    history: History,
) -> None:
    telling = Telling("One thread is no gain.", ("serving.threads=1",), Saying.DOES_NOT_HELP)
    with history.database.write() as session:
        number = tell(session, telling, 1).id
    same, other = later(history), later(history, target="cpu:another")
    with history.database.read() as session:
        here, elsewhere = (read_facts(session, each).ruled_out for each in (same, other))
    compiled = SPACE.with_change(BASE, {"serving.compile": "default"})
    both = SPACE.with_change(compiled, {"serving.threads": 1})
    for control, candidate in ((BASE, ONE_THREAD), (compiled, both)):
        ruled = rules_out(here, control, candidate, 0.9)
        assert ruled is not None
        assert ruled.finding == f"F-{number:03}"
    assert rules_out(here, BASE, both, 0.9) is None, "compiling may help"
    assert rules_out(elsewhere, BASE, ONE_THREAD, 0.9) is None
    assert "asked again since here it is cpu:another" in asked_again(elsewhere, BASE, ONE_THREAD, 0.9)


def test_what_the_user_wrote_of_a_knob_holds_with_whatever_has_a_meaning_beside_it_alone(
    history: History,
) -> None:
    telling = Telling("It drafts badly.", ("drafting.method=ngram",), Saying.BREAKS_QUALITY)
    with history.database.write() as session:
        tell(session, telling, 1)
    with history.database.read() as session:
        here = read_facts(session, later(history)).ruled_out
    for tokens in (1, 2):
        drafts = SPACE.with_change(BASE, {"drafting.method": "ngram", "drafting.draft_tokens": tokens})
        assert rules_out(here, BASE, drafts, 0.9) is not None
    mtp = SPACE.with_change(BASE, {"drafting.method": "mtp"})
    assert rules_out(here, BASE, mtp, 0.9) is None


def test_what_a_program_wrote_down_rules_nothing_out(history: History) -> None:
    telling = Telling("Slow.", ("serving.threads=1",), Saying.DOES_NOT_HELP, by="mcp:somebody")
    with history.database.write() as session:
        tell(session, telling, 1)
    with history.database.read() as session:
        here = read_facts(session, later(history)).ruled_out
    assert rules_out(here, BASE, ONE_THREAD, 0.9) is None


def test_how_far_it_is_believed_is_told_by_the_newest_word(history: History) -> None:
    with history.database.read() as session:
        assert carried_view(session, 1) is None
    for weight in (0.8, 0.03):
        with history.database.write() as session:
            data: dict[str, Json] = {
                "weight": weight,
                "outcomes": 3,
                "campaigns": {"C-1": weight},
                "findings": ["F-001"],
                "judged": 2,
            }
            events.append(session, EventKind.CAMPAIGN_CARRIED, "Carried.", campaign_id=1, data=data)
    with history.database.read() as session:
        view = carried_view(session, 1)
    assert view is not None
    assert view.sentence == (
        "3 outcomes of other campaigns began its beliefs, and count 3 % now (C-1 3 %). After 2 outcomes here "
        "they foretell worse than physics and this campaign alone."
    )
