"""What helped here before its versions moved on, read from the database for a campaign with those of now."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import select

from agent.campaign.known.facts import Facts
from agent.campaign.known.reading_facts import read_facts
from agent.campaign.known.ruled_out import RuledOut
from agent.campaign.known.stale_findings import helped_before, why_again
from db.models import Finding
from db.states import FindingStatus, VerdictOutcome
from experiments.measurement.evidence import Json
from knowledge.acts.notes import add_note
from knowledge.findings.staleness import Ran, follow_versions
from knowledge.findings.told import Telling, tell
from tests.history.campaign_history import BASE, SPACE, TARGET, VERSIONS, History
from tests.unit.knowledge.test_carried import later

SUPPORTED, REFUTED = VerdictOutcome.SUPPORTED, VerdictOutcome.REFUTED
ONE_THREAD = SPACE.with_change(BASE, {"serving.threads": 1})
NEWER = {**VERSIONS, "torch": "2.14.0"}
AGAIN = "F-001 says that it helps with torch 2.13.0; asked again since here torch 2.14.0"


def upgraded(history: History, **changed: Json) -> Facts:
    """What a campaign knows that comes after an upgrade, of which a test of another change told."""
    campaign_id = later(history, **changed)
    other = history.propose({"serving.compile": "default"}, campaign_id=campaign_id)
    history.judge(other, SUPPORTED, versions=NEWER)
    with history.database.read() as session:
        return read_facts(session, campaign_id)


def test_a_change_that_helped_is_known_with_what_moved_on_since(history: History) -> None:
    history.judge(history.propose({"serving.threads": 1}), SUPPORTED)
    facts = upgraded(history)
    (found,) = facts.stale_findings
    assert (found.finding, found.change) == ("F-001", {"serving.threads": 1})
    assert found.versions == (("torch 2.13.0", "torch 2.14.0"),)
    assert found.effect_log == pytest.approx(-0.105, abs=0.001)
    assert found.again == AGAIN
    again = history.propose({"serving.threads": 1}, campaign_id=facts.id)
    history.judge(again, REFUTED, effect=(0.0, -0.01, 0.01), versions=NEWER)
    with history.database.read() as session:
        assert read_facts(session, facts.id).stale_findings == (), "it was asked and answered"


def test_what_did_not_help_or_was_found_elsewhere_or_holds_is_not_asked_again(history: History) -> None:
    history.judge(history.propose({"serving.dtype": "bfloat16"}), REFUTED, effect=(0.0, -0.01, 0.01))
    history.judge(history.propose({"pruning.method": "depth"}), SUPPORTED, target="cpu:another")
    assert upgraded(history).stale_findings == ()


@pytest.mark.parametrize("changed", [{"concurrency": 16}, {"target": "cpu:another"}])
def test_a_campaign_of_another_scope_asks_for_none_of_it(history: History, changed: dict[str, Json]) -> None:
    history.judge(history.propose({"serving.threads": 1}), SUPPORTED)
    assert upgraded(history, **changed).stale_findings == ()


def test_what_a_note_closed_is_not_asked_again_by_itself(history: History) -> None:
    history.judge(history.propose({"serving.threads": 1}), SUPPORTED)
    with history.database.write() as session:
        add_note(session, "Another cooler.", stale="threads")
    assert upgraded(history).stale_findings == ()


def test_what_the_user_wrote_of_a_version_is_asked_again_with_another(history: History) -> None:
    telling = Telling("One thread is enough.", ("serving.threads=1",), versions=("torch=2.13.0",))
    with history.database.write() as session:
        tell(session, telling, history.campaign_id)
    (found,) = upgraded(history).stale_findings
    assert (found.finding, found.effect_log) == ("F-001", None)


def test_whoever_proposes_the_change_says_why_it_is_asked_again(history: History) -> None:
    history.judge(history.propose({"serving.threads": 1}), SUPPORTED)
    facts = upgraded(history)
    compiled = SPACE.with_change(BASE, {"serving.compile": "default"})
    both = SPACE.with_change(compiled, {"serving.threads": 1})
    assert why_again(facts, BASE, ONE_THREAD, 0.9) == AGAIN
    assert why_again(facts, compiled, both, 0.9) == AGAIN
    assert why_again(facts, BASE, both, 0.9) == "", "another change too"
    against = RuledOut("F-009", "does not help", frozenset(BASE.changes_to(ONE_THREAD)), BASE, (), ours=False)
    said = why_again(replace(facts, ruled_out=(against,)), BASE, ONE_THREAD, 0.9)
    assert said.startswith("F-009 says that it does not help")


def test_what_comes_along_because_it_has_a_meaning_beside_it_alone_is_no_other_change(
    history: History,
) -> None:
    drafts = SPACE.with_change(BASE, {"drafting.method": "ngram"})
    history.judge(history.propose({"drafting.method": "ngram"}), SUPPORTED)
    (found,) = upgraded(history).stale_findings
    only = replace(found, change={"drafting.method": "ngram"})
    assert helped_before([only], BASE, drafts) == only
    assert helped_before([found], BASE, drafts) == found


def of_a_sweep(history: History, key: str, status: FindingStatus = FindingStatus.HOLDS) -> int:
    scope = {"target": TARGET, "engine": "reference", "versions": VERSIONS}
    with history.database.write() as session:
        finding = Finding(campaign_id=1, key=key, claim="It does not run.", scope=scope, rule="R8-sweep")
        finding.strength, finding.status, finding.status_reason = "single", status, "It ran in E-0007."
        session.add(finding)
        session.flush()
        return finding.id


def test_a_finding_whose_key_names_no_versions_is_stale_without_naming_another(history: History) -> None:
    history.judge(history.propose({"serving.threads": 1}), SUPPORTED, versions=NEWER)
    with history.database.read() as session:
        (other,) = session.scalars(select(Finding))
        start = other.key[:4]
    for key in ("sweep: abc", start):
        found = of_a_sweep(history, key)
        with history.database.write() as session:
            follow_versions(session, Ran(TARGET, "reference", NEWER), "E-0009")
            finding = session.get_one(Finding, found)
            assert finding.status is FindingStatus.STALE
            assert (finding.status_reason or "").endswith("and it was not tested with these.")


def test_what_ran_though_a_sweep_had_found_that_it_does_not_stays_contradicted(history: History) -> None:
    history.judge(history.propose({"serving.threads": 1}), SUPPORTED)
    found = of_a_sweep(history, "sweep: abc@def", FindingStatus.CONTRADICTED)
    with history.database.write() as session:
        for versions in (NEWER, VERSIONS):
            follow_versions(session, Ran(TARGET, "reference", versions), "E-0009")
            finding = session.get_one(Finding, found)
            told = finding.status, finding.status_reason
            assert told == (FindingStatus.CONTRADICTED, "It ran in E-0007.")
