"""The packaged campaign `levers`: every question can be asked of the reference model, and of any other."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.campaign.create import survey
from configs.campaign import CampaignSpec, load_campaign
from configs.catalog import Kind, packaged_names
from db.session import Database
from db.states import HypothesisState
from experiments.drafters.packaged import packaged_drafter_path
from experiments.reference_model.load import CheckpointMissing
from tests.unit.agent.test_questions import database, plain_checkpoint, posed

__all__ = ["database"]  # the fixture

LEVERS = load_campaign("levers")
DRAFTED = {question.id for question in LEVERS.questions if "drafting.method" in question.candidate}


def drafter_is_packaged() -> bool:
    try:
        packaged_drafter_path()
    except CheckpointMissing:
        return False
    return True


@pytest.mark.parametrize("name", packaged_names(Kind.CAMPAIGNS))
def test_every_question_of_a_packaged_campaign_is_one_its_space_has(name: str) -> None:
    survey(load_campaign(name), name)


def test_four_questions_have_several_contrasts_each() -> None:
    asks = [question.asks for question in LEVERS.questions]
    assert len(set(asks)) == 4
    assert min(map(asks.count, asks)) >= 3
    assert {question.metric for question in LEVERS.questions} == {
        "nll_bits",
        "task_correct",
        "step_weight_bytes",
        "tpot_ms",
    }


def test_whether_a_corpus_wins_back_what_larger_groups_lost_is_asked_on_bits_and_on_items() -> None:
    back = {
        (question.control["quantization.corpus"], question.metric)
        for question in LEVERS.questions
        if question.id.startswith("g32_over_g128_")
    }
    assert back >= {(c, m) for c in ("instruct", "blend:0.5") for m in ("nll_bits", "task_correct")}


def test_two_draws_of_one_corpus_are_compared_on_bits_and_on_items() -> None:
    draws = {
        question.metric: {
            key for key, value in question.candidate.items() if question.control.get(key) != value
        }
        for question in LEVERS.questions
        if "quantization.seed" in question.candidate
    }
    assert draws == {"nll_bits": {"quantization.seed"}, "task_correct": {"quantization.seed"}}


def test_every_claim_names_the_least_effect_that_it_is_judged_by() -> None:
    for question in LEVERS.questions:
        share = f"{100 * question.min_effect:g}"
        unit = f"{share} point" if question.metric == "task_correct" else f"{share} %"
        assert f"at least {unit}" in question.claim, question.id


def test_the_reference_model_can_be_asked_everything(database: Database) -> None:
    rows = posed(database, LEVERS)
    infeasible = {name for name, row in rows.items() if row.state is HypothesisState.INFEASIBLE}
    if drafter_is_packaged():
        assert infeasible == set()
    else:
        assert infeasible == DRAFTED - {"mtp_over_none"}
    assert rows.keys() == {question.id for question in LEVERS.questions}


def test_a_checkpoint_without_head_and_drafter_can_be_asked_all_the_rest(
    database: Database, tmp_path: Path
) -> None:
    layers = ["linear_attention", "linear_attention", "linear_attention", "full_attention"] * 2
    model = plain_checkpoint(tmp_path / "model", layer_types=layers)
    rows = posed(database, CampaignSpec.model_validate({**LEVERS.model_dump(mode="json"), "model": model}))
    infeasible = {name: row for name, row in rows.items() if row.state is HypothesisState.INFEASIBLE}
    assert infeasible.keys() == DRAFTED
    assert all(
        "draft" in str(row.state_reason) or "MTP" in str(row.state_reason) for row in infeasible.values()
    )
    assert rows["g32_bits"].state is HypothesisState.QUEUED
