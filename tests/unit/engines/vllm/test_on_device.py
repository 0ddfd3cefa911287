"""Which values of its knobs vLLM takes on a kind of device, by its sources where they are here, and of which
that is not known."""

import sys
from pathlib import Path

import pytest

from agent.ground.legal import legal_here
from configs.campaign import load_campaign
from configs.models import load_model_profile
from experiments.engines.port import Infeasible
from experiments.engines.vllm import engine as engine_module
from experiments.engines.vllm.engine import VllmEngine
from experiments.engines.vllm.environment import VllmEnvironment
from experiments.engines.vllm.known_values import KnownValues
from experiments.engines.vllm.on_device import (
    ON_PROCESSORS,
    UNSURE_ON_PROCESSORS,
    asked_on,
    not_taken,
    unsure,
)
from experiments.job.named import unknown_values, unsure_values
from experiments.reference_model.load import reference_model_path
from experiments.space.configuration import Configuration
from experiments.space.loading import load_space

SPACE = load_space("vllm")
BACKEND = "serving.linear_backend"
LISTED = {"cpu": ("auto", "newer"), "cuda": ("auto", "marlin", "triton", "conch", "machete", "humming")}


HYBRID = load_model_profile("reference")
KINDS = HYBRID.layer_types
MTP = ("drafting.method", "mtp")


def values(found: object, knob: str) -> set[object]:
    assert isinstance(found, dict)
    return {value for name, value in found if name == knob}


def test_a_processor_takes_no_kernel_that_only_a_gpu_has_whether_or_not_vllm_is_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none(device: str) -> VllmEnvironment:
        raise Infeasible("unsupported", "vLLM is not installed.")

    monkeypatch.setattr(engine_module, "needed_environment", none)
    found = unknown_values("vllm", SPACE, "cpu", HYBRID)
    for knob, (taken, why) in ON_PROCESSORS.items():
        assert values(found, knob) == set(SPACE.knob(knob).values) - set(taken)
        assert {told for (name, _), told in found.items() if name == knob} == {why}
        assert SPACE.knob(knob).default in taken, "what vLLM chooses itself is always to be had"
    assert {knob for knob, _ in found} == set(ON_PROCESSORS)
    assert unknown_values("vllm", SPACE, "cuda:0", HYBRID) == {}


def test_what_the_installed_version_lists_goes_before_what_was_read_of_another() -> None:
    here = not_taken(SPACE, "cpu", "9.9.0", {"cpu": ("auto", "triton")}, KINDS)
    assert values(here, BACKEND) == set(SPACE.knob(BACKEND).values) - {"auto", "triton"}
    assert here[BACKEND, "marlin"] == (
        "vLLM 9.9.0 has no kernel for packed weights on a processor that goes by "
        "serving.linear_backend=marlin; there it has auto, triton."
    )
    on_gpu = not_taken(SPACE, "cuda:1", "9.9.0", LISTED, KINDS)
    assert set(on_gpu) == {(BACKEND, "exllama")}
    assert "on a GPU" in on_gpu[BACKEND, "exllama"]


def test_the_check_of_a_configuration_refuses_on_a_processor_what_it_does_not_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = VllmEnvironment(Path(sys.executable), "0.32.0", for_cpu=True)
    monkeypatch.setattr(engine_module, "needed_environment", lambda device: here)
    known = KnownValues("0.32.0", {}, kernels={"cpu": ("auto",)})
    monkeypatch.setattr(engine_module, "known_values", lambda found: known)
    for knob, value in (
        ("serving.graph_mode", "full"),
        ("serving.max_graph_tokens", 512),
        ("serving.gdn_prefill_backend", "triton"),
        (BACKEND, "marlin"),
    ):
        with pytest.raises(Infeasible, match=r"processor|on a GPU alone") as refused:
            VllmEngine().check(Configuration.of({knob: value}), reference_model_path(), "cpu")
        assert refused.value.kind == "unsupported"
    VllmEngine().check(Configuration.of({"serving.graph_mode": "eager"}), reference_model_path(), "cpu")


def test_a_version_that_aborts_when_it_drafts_by_mtp_for_a_hybrid_is_not_asked_to_and_others_may_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = "vLLM 0.32 for processors aborts in native code when it drafts by MTP for a hybrid model."
    for version, kinds, device, refused in (
        ("0.32.0", KINDS, "cpu", {MTP: said}),
        ("0.32.1.post2", KINDS, "cpu", {MTP: said}),
        ("0.29.0", KINDS, "cpu", {MTP: said.replace("0.32", "0.29")}),
        ("0.25.2", KINDS, "cpu", {}),
        ("0.33.0", KINDS, "cpu", {}),
        (None, KINDS, "cpu", {}),
        ("0.32.0", ("full_attention",), "cpu", {}),
        ("0.32.0", KINDS, "cuda:0", {}),
    ):
        found = not_taken(SPACE, device, version, {}, kinds)
        assert {each: why for each, why in found.items() if each[0] == "drafting.method"} == refused
    here = VllmEnvironment(Path(sys.executable), "0.32.0", for_cpu=True)
    monkeypatch.setattr(engine_module, "needed_environment", lambda device: here)
    monkeypatch.setattr(engine_module, "known_values", lambda found: KnownValues("0.32.0", {}))
    drafting = Configuration.of({"drafting.method": "mtp", "drafting.draft_tokens": 1})
    with pytest.raises(Infeasible, match="aborts in native code") as told:
        VllmEngine().check(drafting, reference_model_path(), "cpu")
    assert told.value.kind == "unsupported"
    legal = legal_here(
        load_campaign("default", {"engine": "vllm", "space": "vllm"}), reference_model_path(), cores=2
    )
    assert legal.why_never(dict([MTP])) == said
    assert "mtp" not in legal.space.knob("drafting.method").values
    assert "ngram" in legal.space.knob("drafting.method").values


@pytest.mark.parametrize("minor", [26, 27, 29, 31, 32])
def test_a_hybrid_is_not_served_in_float16_on_a_processor_by_a_version_that_reads_it_in_bfloat16_alone(
    minor: int,
) -> None:
    half = ("serving.dtype", "float16")
    said = f"vLLM 0.{minor} for processors reads GatedDeltaNet layers in bfloat16 alone."
    assert not_taken(SPACE, "cpu", f"0.{minor}.0", {}, KINDS)[half] == said
    assert half not in not_taken(SPACE, "cpu", f"0.{minor}.0", {}, ("full_attention",))
    assert half not in not_taken(SPACE, "cpu", "0.33.0", {}, KINDS)
    assert half not in not_taken(SPACE, "cuda:0", f"0.{minor}.0", {}, KINDS)


@pytest.mark.parametrize(("number", "told"), [((0, 26), "0.26"), ((0, 28), "0.28"), ((0, 29), None)])
def test_states_are_asked_for_in_float32_of_a_version_that_takes_no_other_on_a_processor(
    number: tuple[int, int], told: str | None
) -> None:
    beside = {"mamba_ssm_cache_dtype": "float32"} if told else {}
    assert asked_on("cpu", number, {"dtype": "bfloat16"}) == beside
    assert asked_on("cpu", number, {"mamba_ssm_cache_dtype": "bfloat16"}) == {}, "what was asked for stays"
    assert asked_on("cuda:0", number, {}) == {}
    found = not_taken(SPACE, "cpu", f"0.{number[1]}.1", {}, KINDS).get(
        ("serving.gdn_state_dtype", "bfloat16")
    )
    assert found == (
        f"vLLM {told} for processors keeps GatedDeltaNet states in float32 alone." if told else None
    )


def test_what_is_not_known_of_a_processor_is_told_apart_from_what_it_takes_and_does_not() -> None:
    found = unsure_values("vllm", SPACE, "cpu")
    assert found == UNSURE_ON_PROCESSORS == unsure(SPACE, "cpu")
    assert not set(found) & set(not_taken(SPACE, "cpu", None, {}, KINDS))
    assert all(value != SPACE.knob(knob).default for knob, value in found)
    assert unsure_values("vllm", SPACE, "cuda:0") == {}
    assert unsure_values("reference", SPACE, "cpu") == {}
