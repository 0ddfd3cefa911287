"""A campaign goes on after its space has got more knobs."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest

from agent.campaign.beginning.create import create_campaign
from agent.campaign.beginning.survey import survey
from agent.campaign.decision.desk import Desk
from agent.campaign.known import store
from agent.campaign.known.facts import Facts
from agent.campaign.known.measured import Baseline
from agent.campaign.known.reading_facts import read_facts
from agent.campaign.known.settling import settled
from agent.ground.legal import legal_here
from agent.proposers.draft import claim
from agent.proposers.rules import RulesProposer
from agent.proposers.user import Enqueued, user_draft
from configs.campaign import load_campaign
from db.models import Campaign
from db.session import Database
from experiments.measurement.evidence import Metric
from experiments.space.configuration import Configuration
from experiments.space.loading import load_space
from tests.unit.agent.test_questions import database

__all__ = ["database"]  # the fixture

OLD, NEW = "reference", "levers"


def space_text(name: str) -> str:
    return (files("configs") / "packaged" / "spaces" / f"{name}.yaml").read_text()


@pytest.fixture
def stored(database: Database, tmp_path: Path) -> Configuration:
    """A campaign's baseline in the space as it was when it was measured; the space has grown since."""
    path = tmp_path / "space.yaml"
    path.write_text(space_text(OLD))
    spec = load_campaign("default", {"space": str(path)})
    baseline = load_space(path).configuration({"serving.threads": 1})
    with database.write() as session:
        number = create_campaign(session, spec, survey(spec))
        campaign = session.get_one(Campaign, number)
        campaign.baseline_configuration_id = store.configuration_id(session, baseline)
        campaign.naive_configuration_id = campaign.baseline_configuration_id
    path.write_text(space_text(NEW))
    return baseline


def facts_of(database: Database) -> Facts:
    with database.read() as session:
        return read_facts(session, 1)


def test_stored_configurations_get_the_defaults_of_new_knobs(
    database: Database, stored: Configuration
) -> None:
    facts = facts_of(database)
    assert facts.baseline is not None
    assert load_space(facts.spec.space).is_legal(facts.baseline)
    assert set(stored.items()) < set(facts.baseline.items())
    assert facts.baseline["drafting.method"] == "none"
    assert facts.incumbent is not None
    assert facts.incumbent.configuration == facts.baseline


def test_what_was_measured_is_found_under_the_settled_configuration(
    database: Database, stored: Configuration
) -> None:
    facts = facts_of(database)
    assert facts.baseline is not None
    assert facts.stored_digests[facts.baseline.digest] == stored.digest


def test_drafts_change_what_they_name_and_no_knob_that_was_not_there(
    database: Database, stored: Configuration
) -> None:
    facts = facts_of(database)
    assert facts.baseline is not None
    legal = legal_here(facts.spec, facts.checkpoint, facts.cores)
    measured = Baseline({facts.baseline.digest: 8.0}, {facts.baseline.digest: 40.0}, (), 1.0, 1e10)
    desk = Desk(replace(facts, baseline_experiment_id=1), legal, measured, ())
    drafts = RulesProposer().propose(desk.view, 50)
    assert drafts
    assert not any("None" in draft.claim for draft in drafts)
    mine = user_draft(
        Enqueued("Half precision is faster", ("serving.dtype=bfloat16",)),
        legal.space,
        desk.incumbent.configuration,
        metric="tpot_ms",
        min_effect=0.03,
        predict=desk.beliefs.predict,
    )
    assert [change.knob for change in mine.control.changes_to(mine.candidate)] == ["serving.dtype"]


def test_a_configuration_that_the_space_has_no_place_for_stays_as_it_is(tmp_path: Path) -> None:
    stored = Configuration.of({"serving.gone": 1})
    assert settled(stored, NEW) == stored
    assert settled(stored, str(tmp_path / "missing.yaml")) == stored


def test_no_claim_is_on_leaving_out_a_drafting_that_was_never_set() -> None:
    space = load_space(NEW)
    bare = Configuration.of({k: v for k, v in space.configuration({}).items() if "drafting" not in k})
    assert "None" not in claim(space, bare, space.configuration({}), 0.03, Metric.TPOT_MS)


def test_a_knob_that_means_nothing_by_now_is_left_out_at_its_default_and_kept_where_it_was_set() -> None:
    space = load_space("vllm")
    today = space.configuration({"drafting.method": "ngram"})
    chose = Configuration.of({**today, "serving.async_scheduling": "auto"})
    was_set = Configuration.of({**today, "serving.async_scheduling": "on"})
    assert settled(chose, "vllm") == today
    assert settled(was_set, "vllm") == was_set
