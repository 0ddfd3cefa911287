"""What a campaign may ask for with a checkpoint is told by its weights, not by what config.json remembers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy
import pytest
from safetensors.numpy import save_file

from agent.campaign.beginning.create import create_campaign
from agent.campaign.beginning.survey import survey
from agent.ground.legal import Legal, drafter_parameters, legal_here
from configs.campaign import load_campaign
from configs.models import load_model_profile
from db.events import read
from db.session import Database
from experiments.engines.vllm import engine
from experiments.engines.vllm.environment import VllmEnvironment
from experiments.engines.vllm.known_values import KnownValues
from experiments.reference_model.load import reference_model_path
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.gpu import Gpu
from tests.simulated.campaign import CONFIG
from tests.unit.agent.test_questions import database

__all__ = ["database"]  # the fixture

HEAD = {"mtp.fc.weight": (4, 8), "mtp.layers.0.mlp.up_proj.weight": (4, 4)}


def checkpoint(folder: Path, tensors: dict[str, tuple[int, ...]], **config: object) -> Path:
    folder.mkdir(exist_ok=True)
    told = {**CONFIG, "num_hidden_layers": 2, "mtp_num_hidden_layers": 1, **config}
    (folder / "config.json").write_text(json.dumps(told))
    zeros = {name: numpy.zeros(shape, numpy.float16) for name, shape in tensors.items()}
    save_file(zeros, folder / "model.safetensors")
    return folder


def legal(folder: Path, budget: object = None) -> Legal:
    spec = load_campaign("default", {"space": "levers", "parameter_budget": budget})
    return legal_here(spec, folder, 2)


def test_an_mtp_head_that_only_config_json_remembers_is_not_offered(tmp_path: Path) -> None:
    """transformers drops `mtp.*` when it saves a checkpoint again, and keeps the field."""
    dropped = legal(checkpoint(tmp_path, {"norm.weight": (4,)}))
    assert dropped.why_not({"drafting.method": "mtp"}) == "This checkpoint has no MTP head."
    assert dropped.profile is not None
    assert dropped.profile.mtp_parameters == 0
    kept = legal(checkpoint(tmp_path, {"norm.weight": (4,), **HEAD}))
    assert kept.why_not({"drafting.method": "mtp"}) is None
    assert kept.profile is not None
    assert kept.profile.mtp_layers == 1


def test_a_value_that_the_engine_s_version_does_not_know_is_not_offered_and_the_reason_says_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = VllmEnvironment(tmp_path / "python", "9.9.0", for_cpu=True)
    known = KnownValues("9.9.0", {"serving.kv_cache_dtype": ("auto", "fp8_e4m3")})
    monkeypatch.setattr(engine, "needed_environment", lambda device: here)
    monkeypatch.setattr(engine, "known_values", lambda found: known)
    folder = checkpoint(tmp_path / "model", {"norm.weight": (4,)})
    asked = {"serving.kv_cache_dtype": "fp8_e5m2"}
    of_vllm = legal_here(load_campaign("default", {"space": "vllm", "engine": "vllm"}), folder, 2)
    told = "vLLM 9.9.0 does not know serving.kv_cache_dtype=fp8_e5m2; it has auto, fp8_e4m3."
    assert of_vllm.why_not(asked) == told
    assert of_vllm.space.knob("serving.kv_cache_dtype").values == ("auto", "fp8_e4m3")
    other = legal_here(load_campaign("default", {"space": "vllm", "engine": "reference"}), folder, 2)
    assert other.why_not(asked) is None
    rented = {"space": "vllm", "engine": "vllm", "target": "modal:H100!"}
    assert legal_here(load_campaign("default", rented), folder, 2).why_not(asked) is None


def test_a_head_that_is_not_there_is_not_counted_as_paid(tmp_path: Path) -> None:
    """The budget of a model without its head has no room for the head's parameters."""
    folder = checkpoint(tmp_path / "model", {"norm.weight": (4,)})
    drafter = checkpoint(tmp_path / "drafter", {"fc.weight": (8, 8)})
    drafted = {"drafting.method": "draft_model", "drafting.drafter": str(drafter)}
    limited = legal(folder, "baseline")
    refused = limited.refused(limited.space.configuration(drafted))
    assert refused is not None
    assert "64 must be pruned" in refused


def test_under_a_budget_a_drafter_that_is_not_there_is_told_before_what_it_costs(tmp_path: Path) -> None:
    limited = legal(checkpoint(tmp_path / "model", {"norm.weight": (4,)}), "baseline")
    drafted = {"drafting.method": "dflash", "drafting.drafter": str(tmp_path / "nothing")}
    refused = limited.refused(limited.space.configuration(drafted))
    assert refused is not None
    assert str(tmp_path / "nothing") in refused
    assert "How many parameters" not in refused


def test_a_head_is_known_by_its_tensors_where_config_json_is_silent(tmp_path: Path) -> None:
    found = legal(checkpoint(tmp_path, HEAD, mtp_num_hidden_layers=0))
    assert found.why_not({"drafting.method": "mtp"}) is None


@pytest.mark.parametrize("symmetric", [True, False])
def test_a_packed_draft_model_counts_the_weights_that_its_integers_stand_for(
    tmp_path: Path, symmetric: bool
) -> None:
    outputs, inputs, group = 16, 64, 32
    layout: dict[str, object] = {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "config_groups": {
            "group_0": {
                "targets": ["Linear"],
                "weights": {
                    "num_bits": 4,
                    "type": "int",
                    "symmetric": symmetric,
                    "strategy": "group",
                    "group_size": group,
                },
            }
        },
    }
    folder = checkpoint(tmp_path, {}, quantization_config=layout)
    name = "model.layers.0.mlp.up_proj"
    tensors = {
        f"{name}.weight_packed": numpy.zeros((outputs, inputs // 8), numpy.int32),
        f"{name}.weight_scale": numpy.zeros((outputs, inputs // group), numpy.float16),
        f"{name}.weight_shape": numpy.array([outputs, inputs]),
        "model.norm.weight": numpy.zeros(7, numpy.float16),
        "mtp.fc.weight": numpy.zeros((4, 8), numpy.float16),
    }
    if not symmetric:
        tensors[f"{name}.weight_zero_point"] = numpy.zeros((outputs // 8, inputs // group), numpy.int32)
    save_file(tensors, folder / "model.safetensors")
    knobs = {"drafting.method": "draft_model", "drafting.drafter": str(folder)}
    assert list(drafter_parameters(Configuration.of(knobs)).values()) == [outputs * inputs + 7]


def test_a_drafter_that_grew_in_place_is_counted_anew(tmp_path: Path) -> None:
    drafter = Configuration.of({"drafting.method": "dflash", "drafting.drafter": str(tmp_path / "mine")})
    for size in (8, 4096):
        checkpoint(tmp_path / "mine", {"fc.weight": (size, 8)})
        assert list(drafter_parameters(drafter).values()) == [8 * size]


def test_the_reference_model_is_not_drafted_for_by_itself() -> None:
    """A draft model as large as its target gains nothing: a campaign asks for a smaller one."""
    here = legal(reference_model_path())
    assert here.why_not({"drafting.method": "draft_model"}) is not None
    packaged = here.space.configuration({"drafting.method": "draft_model", "drafting.drafter": "packaged"})
    assert "No drafter is packaged for draft_model" in str(here.refused(packaged))
    blocks = here.space.configuration({"drafting.method": "dflash"})
    assert here.refused(blocks) is None
    assert here.profile is not None
    assert here.profile.mtp_parameters == load_model_profile("reference").mtp_parameters


def warned(budget: object) -> str | None:
    spec = load_campaign("default", {"space": "levers", "parameter_budget": budget})
    return survey(spec).warning


def test_a_baseline_above_the_parameter_budget_is_told_with_what_to_do() -> None:
    profile = load_model_profile("reference")
    whole = profile.text_parameters + profile.mtp_parameters
    budget = whole - 1_000_000
    assert warned(budget) == (
        f"The baseline has {whole:,} parameters, more than the parameter budget of {budget:,}: it is "
        "measured to compare with, and nothing is proposed that does not take out 4 layers at least; write "
        "parameter_budget: baseline to leave the model whole."
    )
    assert "take out 1 layer at least" in str(warned(whole - 1))


def test_a_budget_that_no_pruning_of_the_space_reaches_is_told_as_that() -> None:
    told = warned(1_600_000)
    assert told is not None
    assert "no pruning in this space takes enough out of it, so nothing is proposed; allow more" in told


@pytest.mark.parametrize("budget", [None, "baseline", 10_000_000])
def test_a_baseline_within_the_budget_needs_no_warning(budget: object) -> None:
    assert warned(budget) is None


def test_the_log_begins_with_what_the_user_should_know_of_the_budget(database: Database) -> None:
    spec = load_campaign("default", {"space": "levers", "parameter_budget": 4_000_000})
    with database.write() as session:
        create_campaign(session, spec, survey(spec))
    with database.read() as session:
        [started] = read(session, 0, campaign_id=1)
    assert started.text.endswith(f". {survey(spec).warning}")


@pytest.mark.parametrize(
    ("memory_bytes", "limit", "writes"), [(10**9, None, True), (10**7, None, False), (10**9, "10MB", False)]
)
def test_a_campaign_asks_for_no_text_that_its_gpu_can_t_hold_the_writing_model_for(
    memory_bytes: int, limit: str | None, writes: bool
) -> None:
    """The packaged model writes in 43 MB; the smaller GPU is made up."""
    spec = load_campaign("levers", {"engine": "vllm", "space": "vllm", "target": "cuda:0", "memory": limit})
    found = legal_here(spec, reference_model_path(), 2, Gpu("8.9", memory_bytes=memory_bytes))
    asked = found.space.configuration({"quantization.method": "awq", "quantization.corpus": "self"})
    assert (found.refused(asked) is None) is writes
    assert found.refused(found.space.configuration({"quantization.method": "awq"})) is None


def test_a_mixture_of_experts_may_be_quantized_pruned_and_served_in_8_bits(tmp_path: Path) -> None:
    told = {
        "model_type": "qwen3_5_moe_text", "num_experts": 8, "num_experts_per_tok": 2,
        "moe_intermediate_size": 64, "shared_expert_intermediate_size": 64,
    }  # fmt: skip
    folder = checkpoint(tmp_path, {"norm.weight": (4,)}, layer_types=None, num_hidden_layers=8, **told)
    spec = load_campaign("default", {"space": "vllm", "engine": "vllm", "target": "cuda:0"})
    found = legal_here(spec, folder, 2, Gpu("9.0"))
    changes: list[dict[str, KnobValue]] = [
        {"quantization.method": "awq"},
        {"pruning.method": "depth"},
        {"serving.weight_dtype": "fp8"},
    ]
    for knobs in changes:
        asked = found.space.configuration(knobs)
        assert found.refused(asked) is None
        assert found.why_not_admitted(asked) is None
    assert found.why_never({"quantization.group_size": 128}) == (
        "Groups of 128 do not divide the 64 inputs of mlp.experts.down_proj."
    )
    pair = {"quantization.method": "rtn", "quantization.bits": 8, "quantization.symmetric": False}
    told = found.refused(found.space.configuration(pair))
    assert str(told).startswith("vLLM has no kernel for a Mixture of Experts' experts in 8 bits with zero")
