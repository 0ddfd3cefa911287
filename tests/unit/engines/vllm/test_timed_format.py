"""Kernels are timed with the `quantization_config` of a checkpoint whose products are all packed."""

from __future__ import annotations

import re

import pytest

from configs.models import ModelProfile, load_model_profile
from experiments.engines.kernel_timings import HEAD, products_of
from experiments.engines.port import Infeasible
from experiments.engines.vllm.timed_format import timed_format
from experiments.space.configuration import Configuration, KnobValue

NINE, FOUR, MIXTURE = (load_model_profile(f"qwen3.5-{name}") for name in ("9b", "4b", "35b-a3b"))


def packed(**knobs: KnobValue) -> Configuration:
    told = {"method": "rtn", "bits": 4, "group_size": 128, "symmetric": True, **knobs}
    return Configuration.of({f"quantization.{name}": value for name, value in told.items()})


def test_everything_is_packed_in_one_format_whatever_a_configuration_spares() -> None:
    found = timed_format(NINE, packed(keep="attention", out_proj_bits=8, lm_head="high"))
    (group,) = found["config_groups"].values()
    assert found["quant_method"] == "compressed-tensors"
    assert (group["weights"]["num_bits"], group["weights"]["group_size"]) == (4, 128)
    assert (
        len(group["targets"]) == len(timed_format(FOUR, packed())["config_groups"]["group_0"]["targets"]) + 1
    )


def test_a_head_that_is_the_embedding_is_neither_packed_nor_timed() -> None:
    assert HEAD in {each.part for each in products_of(NINE)}
    assert HEAD not in {each.part for each in products_of(FOUR)}


@pytest.mark.parametrize("knobs", [{"method": "none"}, {"group_size": 96}])
def test_what_packs_nothing_or_does_not_divide_has_no_such_format(knobs: dict[str, KnobValue]) -> None:
    with pytest.raises(Infeasible):
        timed_format(NINE, packed(**knobs))


def test_of_a_mixture_of_experts_the_shared_expert_alone_is_a_product() -> None:
    found = {each.part: each for each in products_of(MIXTURE)}
    gate_up, down = found["gate_up_proj"], found["down_proj"]
    assert (gate_up.inputs, gate_up.outputs, gate_up.count) == (2048, 1024, 40)
    assert (down.inputs, down.outputs, down.count) == (512, 2048, 40)
    assert gate_up.module == "model.layers.0.mlp.shared_expert.gate_proj"


@pytest.mark.parametrize("profile", [NINE, FOUR, MIXTURE])
def test_every_product_that_is_timed_is_packed_in_its_format_and_no_router_is(profile: ModelProfile) -> None:
    (group,) = timed_format(profile, packed())["config_groups"].values()
    targets = [re.compile(each.removeprefix("re:")) for each in group["targets"]]

    def is_packed(module: str) -> bool:
        return any(target.match(module) for target in targets)

    assert all(is_packed(product.module) for product in products_of(profile))
    assert is_packed("model.layers.0.mlp.experts.7.down_proj") == (profile is MIXTURE)
    for kept in ("mlp.gate", "mlp.shared_expert_gate", "linear_attn.in_proj_ba"):
        assert not is_packed(f"model.layers.0.{kept}")


def test_products_have_the_sizes_of_vllms_merged_layers() -> None:
    told = {each.part: (each.inputs, each.outputs, each.count) for each in products_of(NINE)}
    assert told == {
        "gate_up_proj": (4096, 24576, 32),
        "down_proj": (12288, 4096, 32),
        "in_proj_qkvz": (4096, 12288, 24),
        "out_proj": (4096, 4096, 24),
        "qkv_proj": (4096, 10240, 8),
        "o_proj": (4096, 4096, 8),
        HEAD: (4096, 248320, 1),
    }
