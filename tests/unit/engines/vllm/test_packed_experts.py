"""On a processor packed experts need AMX, and with it few formats are multiplied, asked for or stored."""

from __future__ import annotations

from pathlib import Path

import pytest

from configs.models import load_model_profile
from experiments.engines.port import Infeasible
from experiments.engines.vllm import engine as engine_module
from experiments.engines.vllm.engine import VllmEngine
from experiments.engines.vllm.environment import VllmEnvironment
from experiments.engines.vllm.known_values import KnownValues
from experiments.engines.vllm.packed_experts import (
    STORED_WITH_AMX,
    STORED_WITHOUT_AMX,
    WITH_AMX,
    WITHOUT_AMX,
    experts_not_taken,
    stored_experts_not_taken,
)
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.legality import ModelFacts, legal_levers
from experiments.space.loading import load_space
from experiments.space.stored_packing import PackedFormat, StoredPacking
from tests.integration.engines.checkpoints import tiny_mixture, write_checkpoint
from tests.integration.engines.packed_checkpoints import by_hand, compressed_tensors_config, pack_quantized

SPACE = load_space("vllm")
MIXTURE, DENSE = load_model_profile("qwen3.5-35b-a3b"), load_model_profile("qwen3.5-9b")


def not_taken(device: str = "cpu", **told: bool) -> dict[tuple[str, KnobValue], str]:
    return experts_not_taken(SPACE, device, **{"has_experts": True, "has_amx": False, **told})


def test_without_amx_a_mixture_of_experts_is_not_quantized_and_told_why() -> None:
    found = not_taken()
    assert found == WITHOUT_AMX
    assert {knob for knob, _ in found} == {"quantization.method"}
    space, withheld = legal_levers(SPACE, ModelFacts.of(MIXTURE, not_served=found))
    assert space.knob("quantization.method").values == ("none",)
    why = {(each.knob, each.value): each.why for each in withheld}
    assert why["quantization.method", "awq"] == (
        "On a processor without AMX vLLM has no kernel for the packed experts of a Mixture of Experts: leave "
        "quantization.method at none."
    )


def test_with_amx_4_bits_without_zero_points_in_larger_groups_are_what_is_left() -> None:
    found = not_taken(has_amx=True)
    assert found == WITH_AMX
    space, _ = legal_levers(SPACE, ModelFacts.of(MIXTURE, not_served=found))
    asked = space.configuration({"quantization.method": "rtn"})
    assert asked["quantization.bits"] == 4
    assert asked["quantization.symmetric"] is True
    assert space.knob("quantization.group_size").values == (64, 128)


@pytest.mark.parametrize("has_amx", [True, False])
def test_of_a_gpu_and_of_a_dense_model_nothing_is_said(has_amx: bool) -> None:
    assert not_taken("cuda:0", has_amx=has_amx) == {}
    assert not_taken(has_experts=False, has_amx=has_amx) == {}


def test_what_a_space_does_not_have_is_not_told() -> None:
    space = SPACE.restrict({"quantization.method": ["none", "rtn"]})
    found = experts_not_taken(space, "cpu", has_experts=True, has_amx=False)
    assert set(found) == {("quantization.method", "rtn")}


@pytest.mark.parametrize(
    ("flags", "told"),
    [({"avx2"}, WITHOUT_AMX), ({"avx2", "amx_tile"}, WITH_AMX), (None, WITHOUT_AMX)],
)
@pytest.mark.parametrize("installed", [True, False])
def test_the_engine_asks_this_machines_processor_whether_vllm_is_there_or_not(
    flags: set[str] | None,
    told: dict[tuple[str, KnobValue], str],
    installed: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def found_there(device: str) -> VllmEnvironment:
        if not installed:
            raise Infeasible("unsupported", "There is no vLLM.")
        return VllmEnvironment(Path("python"), "0.33.0", for_cpu=True)

    monkeypatch.setattr(engine_module, "cpu_flags", lambda: flags)
    monkeypatch.setattr(engine_module, "needed_environment", found_there)
    monkeypatch.setattr(engine_module, "known_values", lambda _: KnownValues("0.33.0", {}))
    found, dense = (VllmEngine().unknown_values(SPACE, "cpu", each) for each in (MIXTURE, DENSE))
    assert {of: why for of, why in found.items() if of not in dense} == told


GOOD, EIGHT = PackedFormat(4, 64, symmetric=True), PackedFormat(8, 64, symmetric=True)


@pytest.mark.parametrize(
    ("packing", "has_amx", "told"),
    [
        (StoredPacking((GOOD,), experts=True), False, STORED_WITHOUT_AMX),
        (StoredPacking((GOOD,), experts=True), True, None),
        (StoredPacking((EIGHT,), experts=True), True, STORED_WITH_AMX),
        (StoredPacking((PackedFormat(4, 64, symmetric=False),), experts=True), True, STORED_WITH_AMX),
        (StoredPacking((PackedFormat(4, 32, symmetric=True),), experts=True), True, STORED_WITH_AMX),
        (StoredPacking((EIGHT, GOOD), experts=True), True, None),
        (StoredPacking((EIGHT,)), False, None),
        (None, False, None),
    ],
)
def test_of_experts_that_are_stored_packed_the_same_is_said(
    packing: StoredPacking | None, has_amx: bool, told: str | None
) -> None:
    assert stored_experts_not_taken(packing, has_amx=has_amx) == told


def test_the_check_of_a_launch_says_it_before_vllm_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = VllmEnvironment(Path("python"), "0.33.0", for_cpu=True)
    monkeypatch.setattr(engine_module, "needed_environment", lambda _: there)
    monkeypatch.setattr(engine_module, "known_values", lambda _: KnownValues("0.33.0", {}))
    monkeypatch.setattr(engine_module, "cpu_flags", lambda: {"avx2"})
    folder = write_checkpoint(tmp_path / "model", tiny_mixture(), each_expert=True)
    VllmEngine().check(Configuration.of({}), folder, "cpu")
    by_hand(folder, pack_quantized, compressed_tensors_config())
    with pytest.raises(Infeasible, match="take one whose experts are stored in 16 bits") as refused:
        VllmEngine().check(Configuration.of({}), folder, "cpu")
    assert refused.value.kind == "unsupported"
