"""The `quantization.*` knobs as a recipe, and as the key of the checkpoint that is built."""

from pathlib import Path

import pytest

from experiments.artifacts.key import ArtifactKey
from experiments.engines.port import Infeasible
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.loading import load_space
from experiments.stages.pruning.stage import DepthPruning
from experiments.stages.quantize.environment import PYTHON_VARIABLE, quantize_python
from experiments.stages.quantize.recipe import (
    calibration_of,
    grid_points,
    kept_bytes,
    kept_in_host,
    recipe_of,
)
from experiments.stages.quantize.stage import WeightQuantization


def configuration(**knobs: KnobValue) -> Configuration:
    return Configuration.of({f"quantization.{name}": value for name, value in knobs.items()})


def key(device: str = "cpu", **knobs: KnobValue) -> ArtifactKey:
    return WeightQuantization(device).key(configuration(**knobs), Path("unused"), (), "fingerprint")


def test_nothing_is_quantized_unless_asked() -> None:
    for knobs in (Configuration.of({}), configuration(method="none")):
        assert recipe_of(knobs) is None
        assert calibration_of(knobs) is None
        assert not WeightQuantization().asked(knobs)
    with pytest.raises(Infeasible, match="does not ask for quantization"):
        WeightQuantization().build(configuration(method="none"), Path("unused"), Path("unused"))


def test_knobs_that_are_not_given_have_their_defaults() -> None:
    assert recipe_of(configuration(method="rtn")) == recipe_of(
        configuration(
            method="rtn",
            bits=4,
            group_size=32,
            symmetric=True,
            out_proj_bits=4,
            lm_head="high",
            keep="none",
        )
    )
    assert calibration_of(configuration(method="awq")) == calibration_of(
        configuration(method="awq", corpus="raw", samples=32, sample_tokens=256, seed=0)
    )


def test_eight_bits_hold_for_the_output_projection_too() -> None:
    recipe = recipe_of(configuration(method="rtn", bits=8))
    assert recipe is not None
    assert recipe.out_proj_bits == 8


@pytest.mark.parametrize(
    ("knob", "value", "sentence"),
    [
        ("method", "gptq", "quantization.method is 'gptq'; it is one of none, awq, rtn"),
        ("bits", 3, "one of 4, 8"),
        ("group_size", 100, r"group_size is 100; it must be a multiple of 8 from 8 to 65,536\."),
        ("group_size", 0, "a multiple of 8 from 8 to"),
        ("group_size", -32, "a multiple of 8 from 8 to"),
        ("symmetric", 1, "symmetric is 1; it is one of true, false"),
        ("out_proj_bits", 2, "one of 4, 8"),
        ("lm_head", True, "one of high, quantized"),
        ("keep", "everything", "one of none, attention, edges"),
        ("samples", 0, r"samples is 0; it must be a whole number from 1 to 4,096\."),
        ("samples", 4097, "from 1 to 4,096"),
        ("samples", True, "samples is True; it must be a whole number from 1 to 4,096"),
        ("sample_tokens", 15, "a whole number from 16 to 32,768"),
        ("sample_tokens", 32_769, "a whole number from 16 to 32,768"),
        ("seed", -1, "a whole number from 0 to 4,294,967,295"),
        ("seed", False, "a whole number from 0 to"),
        ("seed", 1.0, "seed is 1.0; it must be a whole number from 0 to"),
        ("seed", "1", "seed is '1'; it must be a whole number from 0 to"),
    ],
)
def test_a_value_that_a_knob_cannot_have_is_named(knob: str, value: KnobValue, sentence: str) -> None:
    knobs = configuration(**{"method": "awq", knob: value})
    with pytest.raises(Infeasible, match=sentence) as told:
        (recipe_of(knobs), calibration_of(knobs))
    assert told.value.kind == "illegal"


@pytest.mark.parametrize(
    "knobs",
    [
        {"group_size": 96, "samples": 512, "sample_tokens": 2048, "seed": 7},
        {"group_size": 8, "samples": 1, "sample_tokens": 16, "seed": 2**32 - 1},
        {"group_size": 65_536, "samples": 4096, "sample_tokens": 32_768, "seed": 0},
    ],
)
def test_a_space_of_the_user_s_own_may_ask_for_any_number_in_range(knobs: dict[str, KnobValue]) -> None:
    asked = configuration(method="awq", **knobs)
    recipe, calibration = recipe_of(asked), calibration_of(asked)
    assert recipe is not None
    assert calibration is not None
    assert {
        "group_size": recipe.group_size,
        "samples": calibration.samples,
        "sample_tokens": calibration.sample_tokens,
        "seed": calibration.seed,
    } == knobs


def test_the_packaged_space_offers_nothing_that_is_refused() -> None:
    space = load_space("levers")
    for name in ("group_size", "samples", "sample_tokens", "seed"):
        for value in space.knob(f"quantization.{name}").values:
            asked = configuration(**{"method": "awq", name: value})
            assert recipe_of(asked) is not None
            assert calibration_of(asked) is not None


def test_awq_searches_more_finely_where_an_accelerator_works_and_rounding_searches_nothing() -> None:
    awq, rtn = recipe_of(configuration(method="awq")), recipe_of(configuration(method="rtn"))
    assert awq is not None
    assert rtn is not None
    assert [grid_points(awq, device) for device in ("cpu", "cuda:0", "cuda")] == [6, 20, 20]
    assert grid_points(rtn, "cpu") is grid_points(rtn, "cuda:0") is None


def test_what_awq_keeps_of_a_text_is_by_how_much_less_a_gpu_was_seen_to_hold_without_it() -> None:
    # a 4B's layer of GDN on an H200, 128 documents of 512 tokens in 16 bits: 4.041 GB at most, and 2.173
    kept = kept_bytes(128 * 512, {"hidden_size": 2560, "intermediate_size": 9216}, value_bytes=2)
    assert kept == pytest.approx(4.041e9 - 2.173e9, rel=0.02)


def test_awq_keeps_what_goes_into_a_token_s_experts_and_the_shared_one() -> None:
    of_experts = {
        "hidden_size": 2048,
        "num_experts": 256,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 640,
    }
    assert kept_bytes(10, of_experts, value_bytes=2) == 10 * (2 * 2048 + 8 * 512 + 640) * 2


def test_awq_keeps_in_the_host_what_would_fill_more_than_a_quarter_of_what_is_free() -> None:
    assert kept_in_host(2 * 10**9, free=8 * 10**9) is None
    assert kept_in_host(2 * 10**9 + 1, free=8 * 10**9) == (
        "What AWQ keeps of the text, 2.00 GB, lies in the host's memory: 8.00 GB of the GPU are free."
    )


def test_the_key_holds_what_changes_the_result_and_nothing_else() -> None:
    plain = key(method="rtn")
    assert plain.digest == key(method="rtn", group_size=32, keep="none").digest
    others = [
        key(method="rtn", group_size=64),
        key(method="rtn", symmetric=False),
        key(method="rtn", lm_head="quantized"),
        key(method="rtn", out_proj_bits=8),
        key(method="awq"),
        key(method="awq", samples=64),
        key(method="awq", seed=1),
        key(method="awq", seed=2),
        key(method="awq", corpus="instruct"),
        key(method="awq", corpus="self"),
        key("cuda:0", method="rtn"),
        key("cuda:0", method="awq", corpus="self"),
    ]
    assert len({each.digest for each in (plain, *others)}) == len(others) + 1
    elsewhere = WeightQuantization().key(
        Configuration.of({"quantization.method": "rtn", "serving.threads": 2}), Path("x"), (), "fingerprint"
    )
    assert elsewhere == plain
    assert key("cuda:1", method="rtn") == key("cuda:0", method="rtn")
    assert key(method="awq", seed=0).digest == key(method="awq").digest
    assert {"llmcompressor", "compressed-tensors", "torch"} <= plain.tool_versions.keys()


def test_it_stands_between_pruning_before_and_pruning_after() -> None:
    def order(order: str) -> Configuration:
        return Configuration.of(
            {"quantization.method": "rtn", "pruning.method": "depth", "pruning.order": order}
        )

    for knob, sign in (("before_quantization", -1), ("after_quantization", 1)):
        distance = DepthPruning().place(order(knob)) - WeightQuantization().place(order(knob))
        assert distance * sign > 0
    assert WeightQuantization().beside(order("before_quantization")) is None


def test_a_python_that_is_named_goes_before_all_others(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.touch()
    assert quantize_python({PYTHON_VARIABLE: str(python)}) == python
    with pytest.raises(
        Infeasible, match=r"which is no Python; make an environment with `autoinfer engines install quantize`"
    ) as told:
        quantize_python({PYTHON_VARIABLE: str(tmp_path / "missing")})
    assert told.value.kind == "not_installed"
