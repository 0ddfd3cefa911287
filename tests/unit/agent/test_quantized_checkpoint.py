"""A campaign on a checkpoint that is quantized already: told, never dispatched, never proposed, refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy
import pytest
from safetensors.numpy import load_file, save_file
from sqlalchemy import select

from agent.campaign.beginning.create import create_campaign
from agent.campaign.beginning.named import check_names
from agent.campaign.beginning.survey import survey
from agent.campaign.known.reading_facts import read_facts
from agent.campaign.queue import order
from agent.campaign.queue.enqueue import enqueue
from agent.campaign.queue.questions import pose_questions
from agent.ground.legal import legal_here
from agent.ground.positions import space_before
from agent.plan.card import card_asked
from agent.plan.legal_planned import planned_legal
from agent.plan.model import find_model
from configs.campaign import CampaignSpec, load_campaign
from configs.errors import UsageError
from configs.questions import Question
from db.models import Experiment, Hypothesis
from db.session import Database
from db.states import HypothesisState
from experiments.engines.vllm.order import order_for
from tests.unit.agent.test_questions import database, desk_of, plain_checkpoint

__all__ = ["database"]  # the fixture

SAID = "The checkpoint is quantized already: "
MODULE = "model.layers.0.mlp.up_proj"
LAYER_TYPES = ["linear_attention", "linear_attention", "full_attention"] * 4
OUTPUTS, INPUTS, GROUP = 128, 128, 32

AUTO_AWQ = {"quant_method": "awq", "bits": 4, "group_size": GROUP, "version": "gemm", "zero_point": True}
COMPRESSED_TENSORS = {
    "quant_method": "compressed-tensors",
    "format": "pack-quantized",
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {"num_bits": 4, "type": "int", "symmetric": True, "group_size": GROUP},
        }
    },
}


def int32(*shape: int) -> numpy.ndarray:
    return numpy.zeros(shape, numpy.int32)


def float16(*shape: int) -> numpy.ndarray:
    return numpy.zeros(shape, numpy.float16)


LAYOUTS = {
    "AutoAWQ": (
        AUTO_AWQ,
        {
            "qweight": int32(INPUTS, OUTPUTS // 8),
            "qzeros": int32(INPUTS // GROUP, OUTPUTS // 8),
            "scales": float16(INPUTS // GROUP, OUTPUTS),
        },
    ),
    "compressed-tensors": (
        COMPRESSED_TENSORS,
        {
            "weight_packed": int32(OUTPUTS, INPUTS // 8),
            "weight_scale": float16(OUTPUTS, INPUTS // GROUP),
            "weight_shape": numpy.array([OUTPUTS, INPUTS]),
        },
    ),
}


def quantized_checkpoint(folder: Path, layout: str = "AutoAWQ", *, told: bool = True) -> str:
    """One module is packed; `told` says whether config.json tells of it."""
    plain_checkpoint(folder, layer_types=LAYER_TYPES)
    quantization, parts = LAYOUTS[layout]
    if told:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"quantization_config": quantization}))
    file = folder / "model.safetensors"
    plain = {name: tensor for name, tensor in load_file(file).items() if name != f"{MODULE}.weight"}
    save_file({**plain, **{f"{MODULE}.{end}": part for end, part in parts.items()}}, file)
    return str(folder)


def on(model: str) -> CampaignSpec:
    return load_campaign("levers", {"model": model}).model_copy(update={"parameter_budget": None})


def begun(database: Database, spec: CampaignSpec) -> int:
    with database.write() as session:
        return create_campaign(session, spec, survey(spec))


def quantizes(question: Question) -> bool:
    methods = [arm.get("quantization.method", "none") for arm in (question.control, question.candidate)]
    return methods != ["none", "none"]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("told", [True, False])
def test_it_is_known_by_its_config_and_by_its_tensors(tmp_path: Path, layout: str, told: bool) -> None:
    folder = Path(quantized_checkpoint(tmp_path / "model", layout, told=told))
    legal = legal_here(on(str(folder)), folder, 2)
    assert legal.space.knob("quantization.method").values == ("none",)
    assert (legal.why_not({"quantization.method": "awq"}) or "").startswith(SAID)
    plain = Path(plain_checkpoint(tmp_path / "plain"))
    assert legal_here(on(str(plain)), plain, 2).why_not({"quantization.method": "awq"}) is None


def test_contrasts_that_quantize_are_told_infeasible_and_none_is_dispatched(
    database: Database, tmp_path: Path
) -> None:
    spec = on(quantized_checkpoint(tmp_path / "model"))
    campaign_id = begun(database, spec)
    with database.write() as session:
        pose_questions(session, desk_of(read_facts(session, campaign_id)))
    with database.read() as session:
        rows = {row.question: row for row in session.scalars(select(Hypothesis))}
        assert session.scalars(select(Experiment)).all() == []
    asking_for_it = {question.id for question in spec.questions if quantizes(question)}
    assert len(asking_for_it) == 19
    for name, row in rows.items():
        about_it = (row.state_reason or "").startswith(SAID)
        assert about_it == (name in asking_for_it), (name, row.state_reason)
        assert not about_it or row.state is HypothesisState.INFEASIBLE


def test_nothing_that_quantizes_is_proposed_and_the_other_levers_are(
    database: Database, tmp_path: Path
) -> None:
    campaign_id = begun(database, on(quantized_checkpoint(tmp_path / "model")))
    with database.read() as session:
        desk = desk_of(read_facts(session, campaign_id))
    drafts = order.proposals(desk)
    assert {str(draft.candidate.get("quantization.method")) for draft in drafts} == {"none"}
    levers = {lever for draft in drafts for lever in draft.lever.split("+")}
    assert "quantization" not in levers
    assert levers & {"pruning", "drafting"}


def test_on_the_original_it_is_proposed(database: Database, tmp_path: Path) -> None:
    campaign_id = begun(database, on(plain_checkpoint(tmp_path / "model", layer_types=LAYER_TYPES)))
    with database.read() as session:
        drafts = order.proposals(desk_of(read_facts(session, campaign_id)))
    assert any("quantization" in draft.lever for draft in drafts)


def test_a_user_who_asks_for_it_is_refused_with_the_reason(database: Database, tmp_path: Path) -> None:
    begun(database, on(quantized_checkpoint(tmp_path / "model")))
    with pytest.raises(UsageError, match=SAID):
        enqueue(database, 1, claim="Bits fall", assignments=["quantization.method=awq"])
    enqueue(database, 1, claim="A layer less", assignments=["pruning.method=depth"])


def test_a_drafter_of_the_users_own_is_still_taken_where_none_is_packaged(
    database: Database, tmp_path: Path
) -> None:
    begun(database, on(quantized_checkpoint(tmp_path / "model")))
    own = ["drafting.method=draft_model", f"drafting.drafter={plain_checkpoint(tmp_path / 'drafter')}"]
    assert enqueue(database, 1, claim="It drafts", assignments=own) == 1


@pytest.mark.parametrize(
    ("quantization", "called"),
    [
        ({"quant_method": "gptq", "bits": 4, "group_size": 32}, "quantized by 'gptq'"),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "quantized by 'fp8'"),
        ({**COMPRESSED_TENSORS, "format": "int-quantized"}, "compressed-tensors of format int-quantized"),
        ({**AUTO_AWQ, "version": "gemv"}, "AWQ of version 'gemv'"),
    ],
)
def test_of_a_layout_that_no_stage_reads_nothing_is_pruned_and_the_other_levers_stay(
    tmp_path: Path, quantization: dict[str, object], called: str
) -> None:
    folder = Path(plain_checkpoint(tmp_path / "model", layer_types=LAYER_TYPES))
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"quantization_config": quantization}))
    save_file({"norm.weight": float16(4)}, folder / "model.safetensors")
    legal = legal_here(on(str(folder)), folder, 2)
    assert legal.space.knob("pruning.method").values == ("none",)
    assert (legal.why_not({"pruning.method": "depth"}) or "").startswith(f"The checkpoint is {called}")
    assert legal.space.knob("quantization.method").values == ("none",)
    assert "ngram" in legal.space.knob("drafting.method").values


@pytest.mark.parametrize("layout", LAYOUTS)
def test_of_a_layout_that_is_read_layers_may_go(tmp_path: Path, layout: str) -> None:
    folder = Path(quantized_checkpoint(tmp_path / "model", layout))
    assert "depth" in legal_here(on(str(folder)), folder, 2).space.knob("pruning.method").values


def in_vllm(model: str, start: str | dict[str, str] = "default") -> CampaignSpec:
    asked = {"model": model, "engine": "vllm", "space": "vllm", "target": "modal:H100!"}
    spec = load_campaign("default", asked)
    baseline = spec.baseline.model_copy(update={"start": start, "sweep": {}})
    return spec.model_copy(update={"baseline": baseline})


@pytest.mark.parametrize("layout", LAYOUTS)
def test_kernels_for_weights_that_are_packed_as_they_are_stored_can_be_named(
    tmp_path: Path, layout: str
) -> None:
    folder = Path(quantized_checkpoint(tmp_path / "model", layout))
    spec = in_vllm(str(folder))
    legal = legal_here(spec, folder, 2)
    begun = legal.space.configuration({})
    assert (begun["quantization.method"], begun["serving.linear_backend"]) == ("none", "auto")
    triton = legal.space.with_change(begun, {"serving.linear_backend": "triton"})
    assert legal.refused(triton) is None
    assert legal.why_not_admitted(triton) is None
    groups = "groups of 64 or 128 alone, and the checkpoint's weights are stored in groups of 32"
    assert groups in (legal.why_never({"serving.linear_backend": "machete"}) or "")
    order = order_for(triton, str(folder), "cuda:0", 1)
    assert order.arguments["linear_backend"] == "triton"
    assert "quantization" not in order.arguments
    model = find_model(str(folder))
    told = planned_legal(spec, model, card_asked("h100"), None)
    assert told.space.knob("serving.linear_backend").when == ()


def test_kernels_that_a_campaign_s_file_names_are_checked_by_what_the_folder_tells(tmp_path: Path) -> None:
    named = {"serving.linear_backend": "triton"}
    packed = in_vllm(quantized_checkpoint(tmp_path / "packed"), start=named)
    check_names(packed, space_before(packed), "here")
    of_the_hub = in_vllm("someone/quantized", start=named)
    check_names(of_the_hub, space_before(of_the_hub), "here")
    plain = in_vllm(plain_checkpoint(tmp_path / "plain"), start=named)
    for each in (plain, in_vllm("reference", start=named)):
        with pytest.raises(UsageError, match="only means something when quantization"):
            check_names(each, space_before(each), "here")


def test_on_a_checkpoint_that_is_not_packed_no_kernel_is_a_choice(tmp_path: Path) -> None:
    folder = Path(plain_checkpoint(tmp_path / "plain"))
    assert "serving.linear_backend" not in legal_here(in_vllm(str(folder)), folder, 2).space.configuration({})
