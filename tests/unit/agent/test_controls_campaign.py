"""The packaged campaign `controls`: each choice within quantization against its own control."""

from __future__ import annotations

from pathlib import Path

import pytest

from configs.campaign import CampaignSpec, load_campaign
from configs.questions import Question
from db.session import Database
from db.states import HypothesisState
from tests.unit.agent.test_questions import database, plain_checkpoint, posed

__all__ = ["database"]  # the fixture

CONTROLS = load_campaign("controls")


def differing(question: Question) -> dict[str, tuple[object, object]]:
    return {
        name: (question.control.get(name), question.candidate.get(name))
        for name in sorted({*question.control, *question.candidate})
        if question.control.get(name) != question.candidate.get(name)
    }


@pytest.mark.parametrize(
    ("contrast", "changes"),
    [
        ("awq_over_rtn", {"quantization.method": ("rtn", "awq"), "quantization.corpus": (None, "raw")}),
        ("out_proj_bits", {"quantization.out_proj_bits": (None, 8)}),
        ("head_bytes", {"quantization.lm_head": (None, "quantized")}),
        ("prune_first", {"pruning.order": ("after_quantization", "before_quantization")}),
        ("keep_attention", {"quantization.keep": (None, "attention")}),
        ("keep_edges", {"quantization.keep": (None, "edges")}),
        ("another_draw_bits", {"quantization.seed": (None, 1)}),
        ("mtp_on_awq", {"drafting.method": (None, "mtp"), "drafting.draft_tokens": (None, 1)}),
    ],
)
def test_each_control_differs_from_its_candidate_in_what_is_asked_alone(
    contrast: str, changes: dict[str, tuple[object, object]]
) -> None:
    (question,) = [each for each in CONTROLS.questions if each.id == contrast]
    assert differing(question) == changes


def test_eight_bits_are_compared_with_the_baseline_itself() -> None:
    (question,) = [each for each in CONTROLS.questions if each.id == "w8_bytes"]
    assert question.control == {}
    assert question.candidate["quantization.bits"] == 8


def test_nothing_but_drafting_is_timed() -> None:
    assert [each.id for each in CONTROLS.questions if each.metric == "tpot_ms"] == ["mtp_on_awq"]


def test_each_question_is_decided_before_any_is_asked_again() -> None:
    asks = list(dict.fromkeys(each.asks for each in CONTROLS.questions))
    first = CONTROLS.questions[: len(asks)]
    assert [each.asks for each in first] == asks
    assert {each.role for each in first} == {"decides"}


def test_each_contrast_that_decides_says_what_its_outcomes_mean() -> None:
    for question in CONTROLS.questions:
        told = (question.if_supported is not None, question.if_refuted is not None)
        assert told == (question.role == "decides",) * 2, question.id


def test_every_claim_names_the_least_effect_that_it_is_judged_by() -> None:
    for question in CONTROLS.questions:
        share = f"{100 * question.min_effect:g}"
        unit = f"{share} point" if question.metric == "task_correct" else f"{share} %"
        assert f"at least {unit}" in question.claim, question.id


def test_the_reference_model_can_be_asked_everything(database: Database) -> None:
    rows = posed(database, CONTROLS)
    assert rows.keys() == {question.id for question in CONTROLS.questions}
    assert {row.state for row in rows.values()} == {HypothesisState.QUEUED}


def test_a_checkpoint_without_an_mtp_head_can_be_asked_all_but_drafting(
    database: Database, tmp_path: Path
) -> None:
    layers = ["linear_attention", "linear_attention", "linear_attention", "full_attention"] * 2
    model = plain_checkpoint(tmp_path / "model", layer_types=layers)
    rows = posed(database, CampaignSpec.model_validate({**CONTROLS.model_dump(mode="json"), "model": model}))
    infeasible = {name for name, row in rows.items() if row.state is HypothesisState.INFEASIBLE}
    assert infeasible == {"mtp_on_awq"}
    assert "MTP" in str(rows["mtp_on_awq"].state_reason)
