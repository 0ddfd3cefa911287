"""The user's hypothesis: on which metric, and what becomes of one from before the baseline."""

from __future__ import annotations

import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.campaign.beginning.create import create_campaign
from agent.campaign.beginning.survey import survey
from agent.campaign.decision.desk import Desk
from agent.campaign.known import store
from agent.campaign.known.measured import Baseline
from agent.campaign.known.reading_facts import read_facts
from agent.campaign.known.within_memory import legal_of
from agent.campaign.queue.enqueue import enqueue
from agent.campaign.queue.held import WAITS, release_held
from agent.ground.legal import Legal, legal_here
from configs.campaign import load_campaign
from configs.errors import UsageError
from db.models import Campaign, Hypothesis
from db.models.base import DIGEST_LENGTH
from db.session import Database, open_database
from db.states import CampaignState, HypothesisState
from experiments.drafters.packaged import packaged_drafter_path
from experiments.space.configuration import Configuration
from knowledge.acts import steering
from knowledge.queries.order.queue import queue_page
from tests.new_database import database_url
from tests.unit.agent.test_questions import database

__all__ = ["database"]  # the fixture

README = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
THREADS = "serving.threads"


@pytest.fixture
def campaign_id(database: Database) -> int:
    spec = load_campaign("default")
    with database.write() as session:
        return create_campaign(session, spec, survey(spec))


def put(database: Database, claim: str, *assignments: str, **options: str) -> int:
    return enqueue(database, 1, claim=claim, assignments=assignments, **options)  # type: ignore[arg-type]


def find_baseline(database: Database, **knobs: str | int) -> Configuration:
    """Trial 0 is chosen, and the loop takes its next turn."""
    with database.write() as session:
        facts = read_facts(session, 1)
        legal = legal_here(facts.spec, facts.checkpoint, facts.cores)
        baseline = legal.space.configuration(knobs)
        campaign = session.get_one(Campaign, 1)
        campaign.baseline_configuration_id = store.configuration_id(session, baseline)
        measured = Baseline({baseline.digest: 8.0}, {baseline.digest: 40.0}, (), 1.0, 1e10)
        release_held(session, Desk(replace(facts, baseline=baseline), legal, measured, ()))
    return baseline


def row_of(database: Database, number: int) -> Hypothesis:
    with database.read() as session:
        row = session.get_one(Hypothesis, number)
        session.expunge(row)
    return row


@pytest.mark.usefixtures("campaign_id")
class TestBeforeTheBaseline:
    def test_a_hypothesis_is_held_and_shown_in_the_queue(self, database: Database) -> None:
        number = put(database, "Half precision is faster", "serving.dtype=bfloat16", expect="tpot=-10%")
        assert row_of(database, number).state is HypothesisState.PROPOSED
        with database.read() as session:
            (shown,) = queue_page(session, 1, limit=10).items
        assert (shown.rank, shown.reason) == (None, WAITS)

    def test_it_is_put_on_the_baseline_as_soon_as_that_is_known(self, database: Database) -> None:
        number = put(database, "Half precision is faster", "serving.dtype=bfloat16", expect="tpot=-10%")
        baseline = find_baseline(database, **{THREADS: 1})
        row = row_of(database, number)
        assert row.state is HypothesisState.QUEUED
        assert row.change == {
            "changes": [{"knob": "serving.dtype", "before": "float32", "after": "bfloat16"}]
        }
        with database.read() as session:
            control = store.configurations(session, [row.control_configuration_id])
        assert control[row.control_configuration_id] == baseline
        assert row.prediction["log_ratio_mean"] == pytest.approx(-0.105, abs=1e-3)

    def test_without_an_expectation_it_is_predicted_when_the_baseline_is_known(
        self, database: Database
    ) -> None:
        number = put(database, "Half precision is faster", "serving.dtype=bfloat16")
        before = row_of(database, number).prediction
        find_baseline(database)
        assert row_of(database, number).prediction != before

    def test_what_the_engine_does_by_default_can_be_asked_for_while_the_baseline_may_be_another(
        self, database: Database
    ) -> None:
        with database.read() as session:
            facts = read_facts(session, 1)
        default = legal_here(facts.spec, facts.checkpoint, facts.cores).space.configuration({})
        number = put(database, "The default is faster", f"serving.dtype={default['serving.dtype']}")
        assert row_of(database, number).state is HypothesisState.PROPOSED
        find_baseline(database, **{"serving.dtype": "bfloat16"})
        row = row_of(database, number)
        assert row.state is HypothesisState.QUEUED
        assert row.change == {
            "changes": [{"knob": "serving.dtype", "before": "bfloat16", "after": default["serving.dtype"]}]
        }

    def test_what_the_baseline_has_already_is_withdrawn_with_the_reason(self, database: Database) -> None:
        number = put(database, "Half precision is faster", "serving.dtype=bfloat16")
        find_baseline(database, **{"serving.dtype": "bfloat16"})
        row = row_of(database, number)
        assert row.state is HypothesisState.WITHDRAWN
        assert "changes nothing" in (row.state_reason or "")

    def test_two_that_are_the_same_on_the_baseline_are_one(self, database: Database) -> None:
        first = put(database, "One", "serving.compile=default", "serving.dtype=bfloat16")
        second = put(database, "Two", "serving.compile=default")
        find_baseline(database, **{"serving.dtype": "bfloat16"})
        assert row_of(database, first).state is HypothesisState.QUEUED
        assert row_of(database, second).state is HypothesisState.WITHDRAWN
        assert row_of(database, second).state_reason == "On the baseline it is the same as H-001."

    def test_one_that_repeats_what_was_withdrawn_stays(self, database: Database) -> None:
        first = put(database, "One", "serving.compile=default", "serving.dtype=bfloat16")
        second = put(database, "Two", "serving.compile=default")
        with database.write() as session:
            steering.withdraw(session, first, "never mind")
        find_baseline(database, **{"serving.dtype": "bfloat16"})
        assert row_of(database, second).state is HypothesisState.QUEUED

    def test_the_same_again_is_refused(self, database: Database) -> None:
        put(database, "One", "serving.compile=default")
        with pytest.raises(UsageError, match="H-001 claims the same change"):
            put(database, "Two", "serving.compile=default")

    def test_it_can_be_withdrawn_while_it_is_held(self, database: Database) -> None:
        number = put(database, "One", "serving.compile=default")
        with database.write() as session:
            steering.withdraw(session, number, "never mind")
        find_baseline(database)
        assert row_of(database, number).state is HypothesisState.WITHDRAWN

    def test_what_its_user_withdrew_may_be_asked_again(self, database: Database) -> None:
        first = put(database, "One", "serving.compile=default")
        with database.write() as session:
            steering.withdraw(session, first, "never mind")
        again = put(database, "After all", "serving.compile=default")
        assert row_of(database, again).state is HypothesisState.PROPOSED
        assert row_of(database, first).state is HypothesisState.WITHDRAWN
        with pytest.raises(UsageError, match="H-002 claims the same change"):
            put(database, "Once more", "serving.compile=default")

    def test_the_readmes_example_is_taken_before_and_stands_after(self, database: Database) -> None:
        (line,) = re.findall(r"^autoinfer enqueue (?:.*\\\n)*.*$", README, re.MULTILINE)
        words = shlex.split(line.replace("\\\n", " "), comments=True)[2:]
        options = [(words[at], words[at + 1]) for at in range(1, len(words), 2)]
        given = {name.lstrip("-"): value for name, value in options if name != "--set"}
        number = put(database, words[0], *(value for name, value in options if name == "--set"), **given)
        find_baseline(database)
        assert row_of(database, number).state is HypothesisState.QUEUED


@pytest.mark.usefixtures("campaign_id")
def test_a_knob_of_another_packaged_space_is_led_to_a_campaign_in_it(database: Database) -> None:
    with pytest.raises(UsageError, match="in the space reference") as refused:
        put(database, "Smaller groups", "quantization.group_size=32")
    assert (
        refused.value.hint
        == "The packaged space levers or vllm has it; a campaign in it: autoinfer run levers"
    )
    assert load_campaign("levers").space == "levers"


@pytest.mark.usefixtures("campaign_id")
def test_others_may_write_while_it_is_thought_about(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = open_database(database_url(tmp_path), busy_timeout_s=0.01)

    def think(*arguments: Any, **named: Any) -> Legal:
        with other.write():
            return legal_of(*arguments, **named)

    monkeypatch.setattr("agent.campaign.queue.enqueue.legal_of", think)
    assert put(database, "Half precision is faster", "serving.dtype=bfloat16") == 1
    other.close()


@pytest.mark.usefixtures("campaign_id")
class TestMetric:
    def test_a_claim_is_on_the_metric_that_is_named(self, database: Database) -> None:
        on_bits = put(database, "Bits fall", "serving.dtype=bfloat16", metric="nll_bits", min_effect="0.5%")
        on_time = put(database, "Time falls", "serving.dtype=bfloat16", metric="ttft")
        assert (row_of(database, on_bits).metric, row_of(database, on_bits).min_effect) == ("nll_bits", 0.005)
        assert "in bits" in row_of(database, on_bits).refuted_if
        assert row_of(database, on_time).metric == "ttft_ms"

    def test_without_one_it_is_on_the_campaigns_objective(self, database: Database) -> None:
        assert row_of(database, put(database, "It is", "serving.dtype=bfloat16")).metric == "tpot_ms"

    def test_an_expectation_of_time_is_none_of_bits(self, database: Database) -> None:
        with pytest.raises(UsageError, match="can't be expected with --expect"):
            put(database, "It is", "serving.dtype=bfloat16", metric="nll_bits", expect="tpot=-10%")

    def test_an_unknown_metric_is_refused_with_the_nearest(self, database: Database) -> None:
        with pytest.raises(UsageError, match="No claim can be on the metric 'task_corect'") as caught:
            put(database, "It is", "serving.dtype=bfloat16", metric="task_corect")
        assert "task_correct" in caught.value.hint


@pytest.mark.usefixtures("campaign_id")
class TestOnACampaignThatEnded:
    @pytest.fixture(autouse=True)
    def ended(self, database: Database, campaign_id: int) -> None:
        with database.write() as session:
            session.get_one(Campaign, campaign_id).state = CampaignState.STOPPED

    @pytest.mark.parametrize(
        ("claim", "options", "said"),
        [
            (" ", {}, "The claim is empty"),
            ("Faster", {"expect": "tpot=fast"}, "'fast' is not a percentage"),
            ("Faster", {"expect": "tpot=-1%"}, "it refutes itself"),
            ("Faster", {"min_effect": "200%"}, "not between 0 and 100 %"),
            ("Better", {"metric": "nll_bits", "expect": "tpot=-10%"}, "can't be expected with --expect"),
        ],
    )
    def test_what_is_wrong_in_any_state_is_told_first(
        self, database: Database, claim: str, options: dict[str, str], said: str
    ) -> None:
        with pytest.raises(UsageError, match=said):
            put(database, claim, "serving.dtype=bfloat16", **options)

    def test_what_could_be_tested_is_refused_with_how_to_continue(self, database: Database) -> None:
        with pytest.raises(UsageError, match="C-1 has ended") as refused:
            put(database, "Faster", "serving.dtype=bfloat16", expect="tpot=-10%")
        assert "autoinfer run --resume C-1" in refused.value.hint


def test_the_same_with_a_drafter_that_was_trained_again_in_its_folder_is_no_duplicate(
    database: Database, tmp_path: Path
) -> None:
    spec = load_campaign("levers")
    with database.write() as session:
        create_campaign(session, spec, survey(spec))
    folder = Path(shutil.copytree(packaged_drafter_path(), tmp_path / "drafter"))
    asked = ("drafting.method=dflash", f"drafting.drafter={folder}", "pruning.method=depth")
    asked = (*asked, "pruning.layers_removed=3")
    first = put(database, "It drafts well.", *asked)
    with pytest.raises(UsageError, match=f"H-00{first} claims the same change of the same control"):
        put(database, "It drafts well.", *asked)
    weights = folder / "model.safetensors"
    stored = weights.read_bytes()
    weights.write_bytes(stored[:-1] + bytes([stored[-1] ^ 1]))  # the last weight is another
    again = put(database, "It drafts well.", *asked)
    assert again > first
    with pytest.raises(UsageError, match="claims the same change of the same control"):
        put(database, "It drafts well.", *asked)


def test_what_drafts_with_a_drafter_of_unknown_content_is_still_a_duplicate(
    database: Database, tmp_path: Path
) -> None:
    """As of a database from before contents were kept."""
    spec = load_campaign("levers")
    with database.write() as session:
        create_campaign(session, spec, survey(spec))
    asked = ("drafting.method=dflash", "pruning.method=depth", "pruning.layers_removed=3")
    first = put(database, "It drafts well.", *asked)
    with database.write() as session:
        row = session.get_one(Hypothesis, first)
        assert len(row.drafter_content) == DIGEST_LENGTH
        row.drafter_content = ""
    with pytest.raises(UsageError, match="claims the same change of the same control"):
        put(database, "It drafts well.", *asked)
