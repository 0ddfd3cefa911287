"""The best that other campaigns came to, read from the database."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from agent.campaign.known import store
from agent.campaign.known.facts import Facts
from agent.campaign.known.reading_facts import read_facts
from db.models import Campaign, Finding
from db.states import FindingStatus, VerdictOutcome
from experiments.measurement.evidence import Json
from knowledge.findings.importing import export_verdicts, import_verdicts
from knowledge.findings.staleness import StaleCause
from tests.history.campaign_history import BASE, SPACE, History
from tests.unit.knowledge.test_carried import later, told_of_trial_0

SUPPORTED, REFUTED = VerdictOutcome.SUPPORTED, VerdictOutcome.REFUTED
ONE_THREAD = SPACE.with_change(BASE, {"serving.threads": 1})
COMPILED_TOO = SPACE.with_change(ONE_THREAD, {"serving.compile": "default"})


@pytest.fixture
def first(history: History) -> History:
    """A campaign with its trial 0, and nothing else in it."""
    changed(history, baseline_configuration_id=True)
    return history


def changed(history: History, campaign_id: int = 1, **columns: Json) -> None:
    with history.database.write() as session:
        campaign = session.get_one(Campaign, campaign_id)
        if columns.pop("baseline_configuration_id", False):
            campaign.baseline_configuration_id = store.configuration_id(session, BASE)
        campaign.spec = {**campaign.spec, **columns}


def facts_of(history: History, campaign_id: int) -> Facts:
    with history.database.read() as session:
        return read_facts(session, campaign_id)


def test_the_best_of_another_campaign_is_where_its_supported_changes_lead(first: History) -> None:
    first.judge(first.propose({"serving.threads": 1}), SUPPORTED)
    second = first.propose({"serving.compile": "default"}, control=ONE_THREAD)
    last = first.judge(second, SUPPORTED, effect=(-0.5, -0.6, -0.4))
    first.judge(first.propose({"serving.dtype": "bfloat16"}), REFUTED, effect=(-0.9, -0.91, -0.89))
    (best,) = facts_of(first, later(first)).carried_bests
    assert (best.campaign, best.experiment, best.steps) == ("C-1", f"E-{last.experiment_id:04}", 2)
    assert (best.baseline, best.configuration) == (BASE, COMPILED_TOO)
    assert best.log_ratio == pytest.approx(math.log(0.9 * 0.5))
    assert best.finding.startswith("F-")
    assert best.differs == ()
    assert facts_of(first, 1).carried_bests == ()


def test_without_other_campaigns_or_anything_supported_in_them_there_is_none(first: History) -> None:
    first.judge(first.propose({"serving.threads": 1}), REFUTED)
    first.judge(first.propose({"serving.compile": "default"}), VerdictOutcome.INCONCLUSIVE)
    first.judge(first.propose({"serving.dtype": "bfloat16"}), VerdictOutcome.CONFOUNDED)
    # supported, but on what was never reached from trial 0
    stranded = SPACE.with_change(BASE, {"serving.threads": 4})
    first.judge(first.propose({"serving.compile": "default"}, control=stranded), SUPPORTED)
    assert facts_of(first, later(first)).carried_bests == ()


def test_what_is_no_longer_believed_leads_nowhere(first: History) -> None:
    first.judge(first.propose({"serving.threads": 1}), SUPPORTED)
    campaign_id = later(first)
    for status, cause, differs in (
        (FindingStatus.HOLDS, None, [()]),
        (FindingStatus.STALE, StaleCause.VERSIONS, [(("the versions of then", "other ones"),)]),
        (FindingStatus.STALE, StaleCause.NOTE, []),
        (FindingStatus.WITHDRAWN, None, []),
    ):
        with first.database.write() as session:
            finding = session.get_one(Finding, 1)
            finding.status, finding.stale_cause = status, cause
        assert [each.differs for each in facts_of(first, campaign_id).carried_bests] == differs


def test_what_differs_between_there_and_here_is_told_and_the_nearest_campaign_comes_first(
    first: History,
) -> None:
    first.judge(first.propose({"serving.threads": 1}), SUPPORTED)
    here = later(first, "e" * 64, concurrency=16)
    near = first.start("near", "e" * 64)
    changed(first, near, baseline_configuration_id=True)
    first.judge(first.propose({"serving.threads": 1}, campaign_id=near), SUPPORTED)
    for each in (1, near):
        told_of_trial_0(first, 8.0, each)
    with first.database.write() as session:
        session.get_one(Campaign, 1).model = "another"
    nearest, farther = facts_of(first, here).carried_bests
    assert [nearest.campaign, farther.campaign] == [f"C-{near}", "C-1"]
    assert nearest.differs == (("1 request at once", "16 requests at once"),)
    assert farther.differs == (
        ("the model another", "the model reference"),
        ("1 request at once", "16 requests at once"),
    )


def test_of_made_up_weights_it_is_told_that_nothing_judged_their_quality(first: History) -> None:
    first.judge(first.propose({"serving.threads": 1}), SUPPORTED)
    campaign_id = later(first)
    changed(first, weights="dummy")
    told = ("made-up weights, whose quality nothing judges", "real ones")
    assert [each.differs for each in facts_of(first, campaign_id).carried_bests] == [(told,)]
    changed(first, campaign_id, weights="dummy")
    assert [each.differs for each in facts_of(first, campaign_id).carried_bests] == [()]


def test_imported_verdicts_lead_to_no_best(first: History, tmp_path: Path) -> None:
    elsewhere = History(tmp_path / "elsewhere")
    elsewhere.judge(elsewhere.propose({"serving.threads": 1}), SUPPORTED)
    with elsewhere.database.read() as session:
        file = export_verdicts(session, "lab")
    elsewhere.close()
    with first.database.write() as session:
        import_verdicts(session, file)
    facts = facts_of(first, 1)
    assert len(facts.carried) == 1
    assert facts.carried_bests == ()
