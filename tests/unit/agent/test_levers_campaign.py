"""The packaged campaign `levers`: every question can be asked of the reference model, and of any other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agent.campaign.beginning.survey import survey
from agent.campaign.queue.questions import check_questions
from cli.running.asked import campaign_asked
from configs.asked_over import HTTP, IN_ENGINE
from configs.campaign import CampaignSpec, load_campaign
from configs.catalog import Kind, packaged_names
from configs.questions import Question
from db.session import Database
from db.states import HypothesisState
from experiments.drafters.packaged import packaged_drafter_path
from experiments.engines.reference.engine import ReferenceEngine
from experiments.reference_model.load import CheckpointMissing
from experiments.space.knob import Knob
from experiments.space.legality import DRAFT_TOKENS
from experiments.space.loading import load_space
from tests.unit.agent.test_questions import database, plain_checkpoint, posed

__all__ = ["database"]  # the fixture

LEVERS = load_campaign("levers")
BY_ID = {question.id: question for question in LEVERS.questions}
DRAFTED = {question.id for question in LEVERS.questions if "drafting.method" in question.candidate}


def drafter_is_packaged() -> bool:
    try:
        packaged_drafter_path()
    except CheckpointMissing:
        return False
    return True


ON_A_CPU = [name for name in packaged_names(Kind.CAMPAIGNS) if load_campaign(name).target == "cpu"]


@pytest.mark.parametrize("name", ON_A_CPU)
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


def differing(question: Question) -> set[str]:
    return {
        name
        for name in {*question.control, *question.candidate}
        if question.control.get(name) != question.candidate.get(name)
    }


def test_draws_of_one_corpus_are_compared_on_bits_and_on_items() -> None:
    draws = [question for question in LEVERS.questions if question.role == "noise"]
    assert {question.metric for question in draws} == {"nll_bits", "task_correct"}
    assert all(differing(question) == {"quantization.seed"} for question in draws)


def test_the_blend_is_compared_with_raw_text_on_two_draws_of_both() -> None:
    blends = [q for q in LEVERS.questions if q.asks == BY_ID["blend_items"].asks and q.role == "decides"]
    assert all(differing(question) == {"quantization.corpus"} for question in blends)
    assert [question.control.get("quantization.seed", 0) for question in blends] == [0, 1]


def test_the_first_contrasts_decide_one_of_each_question_and_the_others_come_by_turns() -> None:
    asks = list(dict.fromkeys(question.asks for question in LEVERS.questions))
    assert [question.asks for question in LEVERS.questions[:16]] == asks * 4
    assert {question.role for question in LEVERS.questions[:4]} == {"decides"}


def test_a_draw_on_each_scored_metric_comes_within_the_first_three_turns() -> None:
    early = {question.metric for question in LEVERS.questions[:12] if question.role == "noise"}
    assert early == {"nll_bits", "task_correct"}


def test_each_contrast_that_decides_says_what_its_outcomes_mean() -> None:
    for question in LEVERS.questions:
        told = (question.if_supported is not None, question.if_refuted is not None)
        assert told == (question.role == "decides",) * 2, question.id


def test_a_claim_on_quality_that_rests_on_a_draw_says_so() -> None:
    resting = [
        question
        for question in LEVERS.questions
        if question.role != "noise"
        and question.metric in ("nll_bits", "task_correct")
        and any(name.startswith("quantization.") for name in differing(question))
    ]
    assert len(resting) == 11
    assert all(re.match(r"With (these samples|another draw of both)", each.claim) for each in resting)


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


@pytest.mark.parametrize("name", ["levers", "controls"])
def test_on_a_gpu_the_same_file_can_be_asked_unchanged_in_the_space_of_vllm(
    name: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The target is put back to this machine's processor, for no GPU is here to look at, and the check of its
    engine, which has other knobs and no HTTP server, is left out."""
    monkeypatch.setattr(ReferenceEngine, "check", lambda *_, **__: None)
    asked = campaign_asked(name, {"target": "cuda:0"}).spec
    assert asked.space == "vllm"
    check_questions(asked, load_space(asked.space), name)
    unswept = asked.baseline.model_copy(update={"sweep": {}})
    assert asked.plan.workload.asked_over == HTTP
    workload = asked.plan.workload.model_copy(update={"asked_over": IN_ENGINE})
    plan = asked.plan.model_copy(update={"workload": workload})
    spec = asked.model_copy(
        update={"target": "cpu", "engine": "reference", "baseline": unswept, "plan": plan}
    )
    rows = posed(database, spec)
    assert rows.keys() == {question.id for question in asked.questions}
    infeasible = {key for key, row in rows.items() if row.state is HypothesisState.INFEASIBLE}
    assert infeasible == (set() if drafter_is_packaged() else DRAFTED - {"mtp_over_none", "mtp_on_awq"})


def test_knobs_of_weights_and_drafts_are_the_same_in_both_spaces_but_for_how_many_and_by_which_head() -> None:
    def built(space: str) -> dict[str, Knob]:
        return {each.name: each for each in load_space(space).knobs if not each.name.startswith("serving.")}

    here, there = built("levers"), built("vllm")
    short, long = here.pop(DRAFT_TOKENS), there.pop(DRAFT_TOKENS)
    assert there.pop("drafting.lm_head").when == (("drafting.method", ("mtp",)),)
    assert there == here
    assert long.values[: len(short.values)] == short.values
    assert (long.default, long.when, long.lever) == (short.default, short.when, short.lever)
