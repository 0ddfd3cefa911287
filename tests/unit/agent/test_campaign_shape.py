"""A campaign's shape: where it comes from, what is refused on it, what the agent leaves alone there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from agent.campaign.beginning.survey import survey
from agent.ground.legal import legal_here
from agent.ground.shape import check_judged_here, find_shape, refused_on_a_shape, same_shape
from agent.plan.at_once import parts_on
from agent.plan.card import card_asked
from agent.plan.legal_planned import planned_legal
from agent.plan.levers import Standing, lever_rows
from agent.plan.model import find_model
from agent.plan.plan import make_plan
from configs.campaign import CampaignSpec, load_campaign
from configs.errors import UsageError
from experiments.reference_model.load import checkpoint_fingerprint, reference_model_path
from experiments.shapes.folder import shape_in
from experiments.shapes.marker import DRAFTER_FOLDER, drafter_of_shape, is_shape
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.loading import load_space


def spec(**changes: object) -> CampaignSpec:
    return load_campaign("shape", changes)


@pytest.mark.parametrize("model", ["qwen3.5-9b", "reference", str(reference_model_path())])
def test_a_shape_is_written_once_and_has_no_weights(model: str, tmp_path: Path) -> None:
    found = find_shape(model, tmp_path)
    assert is_shape(found.folder)
    assert not list(found.folder.glob("*.safetensors"))
    written = (found.folder / "config.json").stat().st_mtime_ns
    assert find_shape(model, tmp_path) == found
    assert (found.folder / "config.json").stat().st_mtime_ns == written
    assert find_shape(str(found.folder), tmp_path / "elsewhere") == found
    shape = shape_in(found.folder)
    assert shape is not None
    assert shape.model == model


def test_shapes_of_other_sizes_have_other_folders_and_fingerprints(tmp_path: Path) -> None:
    small, large = (find_shape(name, tmp_path).folder for name in ("qwen3.5-4b", "qwen3.5-9b"))
    assert small != large
    assert checkpoint_fingerprint(small) != checkpoint_fingerprint(large)
    told = json.loads((small / "shape.json").read_text())
    assert told["stored"] == "bfloat16"


def test_an_engine_that_makes_up_no_weights_is_refused(tmp_path: Path) -> None:
    asked = spec(engine="reference", target="cpu", space="reference", **{"baseline.sweep": []})
    with pytest.raises(UsageError, match="The engine reference can't serve a model without weights"):
        survey(asked, shapes=tmp_path)


def test_a_drafter_and_a_question_on_quality_have_no_use_on_a_shape() -> None:
    with pytest.raises(UsageError, match="a drafter has no use there"):
        spec(drafter="./mine")
    question = {
        "id": "bits",
        "asks": "?",
        "claim": "Fewer bits.",
        "candidate": {"quantization.method": "awq"},
        "metric": "nll_bits",
        "min_effect": "1%",
        "why": "To know.",
    }
    with pytest.raises(UsageError, match="the question bits is on nll_bits, and made-up weights"):
        spec(questions=[question])


def test_a_users_claim_on_quality_is_refused_with_what_to_do() -> None:
    with pytest.raises(UsageError, match="No claim can be on nll_bits here") as refused:
        check_judged_here(spec(), "nll_bits")
    assert "tpot_ms" in str(refused.value.hint)
    check_judged_here(spec(), "ttft_ms")
    check_judged_here(load_campaign("default"), "nll_bits")


def test_the_agent_leaves_drafting_and_layers_alone_but_where_a_budget_asks_for_them() -> None:
    drafts, prunes = (
        Configuration.of({"drafting.method": "mtp"}),
        Configuration.of({"pruning.method": "depth"}),
    )
    plain = Configuration.of({"drafting.method": "none", "pruning.method": "none"})

    def nothing(configuration: Configuration) -> str | None:
        return None

    why = refused_on_a_shape(spec(), nothing)
    assert why(plain) is None
    assert "autoinfer enqueue" in str(why(drafts))
    assert "autoinfer enqueue" in str(why(prunes))
    paid = refused_on_a_shape(spec(parameter_budget=10**9), nothing)
    assert paid(prunes) is None
    assert paid(drafts) is not None
    assert refused_on_a_shape(load_campaign("default"), nothing)(drafts) is None


@pytest.mark.parametrize("model", ["qwen3.5-4b", "qwen3.5-9b"])
def test_a_shape_can_be_drafted_for_by_the_drafter_that_it_brings(model: str, tmp_path: Path) -> None:
    """Where you ask: the agent itself leaves drafting alone there."""
    legal = legal_here(spec(model=model), find_shape(model, tmp_path).folder, 2)
    drafts = Configuration.of(
        {"drafting.method": "dflash", "drafting.draft_tokens": 15, "drafting.drafter": "packaged"}
    )
    assert legal.why_not(drafts) is None
    assert legal.refused(drafts) is None
    assert "No drafter is packaged" in str(legal.why_not({"drafting.method": "draft_model"}))
    assert refused_on_a_shape(spec(), legal.refused)(drafts) is not None


def test_more_drafts_than_a_block_of_its_drafter_has_are_refused(tmp_path: Path) -> None:
    folder = find_shape("qwen3.5-9b", tmp_path).folder
    path = folder / DRAFTER_FOLDER / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"block_size": 8}))
    refused = legal_here(spec(), folder, 2).refused
    drafts = {"drafting.method": "dflash", "drafting.drafter": "packaged"}
    assert refused(Configuration.of({**drafts, "drafting.draft_tokens": 7})) is None
    told = refused(Configuration.of({**drafts, "drafting.draft_tokens": 8}))
    assert told == "dflash drafts at most 7 tokens a step here, and 8 were asked for."


def test_a_plan_of_a_shape_offers_its_drafter_and_counts_it(tmp_path: Path) -> None:
    asked, model = spec(), find_model("qwen3.5-9b")
    card = card_asked("h200")
    assert planned_legal(asked, model, card, None).why_not({"drafting.method": "dflash"}) is None
    knobs = {"drafting.method": "dflash", "drafting.draft_tokens": 7, "drafting.drafter": "packaged"}
    parts = parts_on(asked, model, card, load_space("vllm").configuration(knobs), 640)
    assert sum(part.bytes for part in parts if part.name == "drafter") == 2 * 1_291_904_512
    trained = load_campaign("levers", {"model": "qwen3.5-9b"})
    assert "No drafter is packaged" in str(
        planned_legal(trained, model, card, None).why_not({"drafting.method": "dflash"})
    )


def test_a_shape_of_before_gets_its_drafter_when_it_is_found_again(tmp_path: Path) -> None:
    found = find_shape("qwen3.5-9b", tmp_path).folder
    fingerprint = checkpoint_fingerprint(found)
    shutil.rmtree(found / DRAFTER_FOLDER)
    legal = legal_here(spec(), found, 2)
    assert "No drafter is packaged" in str(legal.why_not({"drafting.method": "dflash"}))
    assert find_shape("qwen3.5-9b", tmp_path).folder == found
    assert drafter_of_shape(found) is not None
    assert checkpoint_fingerprint(found) == fingerprint


def test_what_is_the_same_shape_whatever_its_value_is_not_offered_with_the_reason(tmp_path: Path) -> None:
    for model, tied in (("qwen3.5-9b", False), ("qwen3.5-4b", True)):
        folder = find_shape(model, tmp_path).folder
        legal = legal_here(spec(model=model), folder, 2)
        assert "Nothing is calibrated" in str(legal.why_not({"quantization.corpus": "instruct"}))
        assert "No layers are ranked" in str(legal.why_not({"pruning.criterion": "greedy_kl"}))
        assert legal.space.knob("quantization.seed").values == (0,)
        assert "mtp" in legal.space.knob("drafting.method").values
        assert "ngram" not in legal.space.knob("drafting.method").values
        assert ("its embedding" in str(legal.why_not({"quantization.lm_head": "quantized"}))) is tied
        assert legal.why_not({"quantization.group_size": 128, "quantization.keep": "edges"}) is None
    whole = legal_here(load_campaign("levers"), reference_model_path(), 2)
    assert whole.why_not({"quantization.corpus": "instruct"}) is None


ROUNDED, SCALED = {"quantization.method": "rtn"}, {"quantization.method": "awq"}


def test_one_method_of_quantization_is_offered_on_a_shape_and_the_other_is_told_with_what_to_take(
    tmp_path: Path,
) -> None:
    folder = find_shape("qwen3.5-9b", tmp_path).folder
    legal = legal_here(spec(), folder, 2)
    told = str(legal.why_never(ROUNDED))
    assert told == (
        "Nothing is calibrated where the weights are made up: every value gives the same shape. "
        "Take quantization.method=awq."
    )
    assert legal.why_not(ROUNDED) == legal.why_same(ROUNDED) == told
    assert legal.why_never(SCALED) is None
    assert legal.space.knob("quantization.method").values == ("none", "awq")
    row = next(
        each
        for each in lever_rows(load_space("vllm"), legal)
        if (each.knob, each.value) == ("quantization.method", "rtn")
    )
    assert (row.standing, row.why) == (Standing.NO, told)
    plan = make_plan(spec(), find_model("qwen3.5-9b"), card_asked("h200"), knobs=dict(ROUNDED))
    assert plan.not_legal is not None
    assert plan.not_legal.why == f"quantization.method=rtn: {told}"


def test_what_was_measured_under_the_other_name_is_still_read_and_known_as_the_same(tmp_path: Path) -> None:
    folder = find_shape("qwen3.5-9b", tmp_path).folder
    space = legal_here(spec(), folder, 2).space
    eight: dict[str, KnobValue] = {"quantization.bits": 8, "quantization.group_size": 128}
    rounded, scaled = (space.configuration({**each, **eight}) for each in (ROUNDED, SCALED))
    assert str(space.why_same(rounded, scaled)).startswith("Nothing is calibrated")
    assert str(space.why_same(scaled, rounded)).startswith("Nothing is calibrated")
    assert space.why_same(rounded, space.configuration(SCALED)) is None
    default = space.configuration({})
    assert space.as_offered(default, rounded) == scaled
    assert space.as_offered(rounded, scaled) == rounded


def test_methods_are_two_where_there_are_weights_and_in_a_space_that_has_but_the_other(
    tmp_path: Path,
) -> None:
    whole = legal_here(load_campaign("levers"), reference_model_path(), 2)
    assert whole.why_never(ROUNDED) is None
    assert {"awq", "rtn"} <= set(whole.space.knob("quantization.method").values)
    rounding = load_space("vllm").restrict({"quantization.method": ("none", "rtn")})
    assert same_shape(rounding) == {}
