"""A checkpoint that stores its weights quantized is counted by the bytes of its files, part by part, as one
that the quantize stage would build is counted by its configuration."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agent.ground.checkpoint import Checkpoint
from agent.plan.card import card_asked
from agent.plan.floor import AS_STORED
from agent.plan.job_time import job_seconds
from agent.plan.model import ModelFound
from agent.plan.plan import Plan, make_plan
from agent.plan.stored_times import Stored
from agent.surrogate.weight_bytes import WeightBytesBelief, head_is_packed, step_weight_bytes
from configs.campaign import load_campaign
from configs.models import ModelProfile, PartKind, load_model_profile
from configs.weight_formats import FP8
from experiments.engines.launch_memory import Asked, after_pruning, launch_parts, weight_bytes
from experiments.engines.reference.expected_tensors import HEAD, expected_tensors
from experiments.engines.reference.stored_weights import by_profile_part
from experiments.job.spec import BaselineJob
from experiments.measurement.plan import Workload
from experiments.shapes.marker import SHAPE_FILE
from experiments.space.configuration import Configuration, KnobValue

PACKED = ("in_proj_qkv", "in_proj_z", "out_proj", "q_proj", "k_proj", "v_proj", "o_proj")
PACKED_MLP = ("gate_proj", "up_proj", "down_proj")
G128: dict[str, KnobValue] = {
    "quantization.method": "awq",
    "quantization.bits": 4,
    "quantization.group_size": 128,
    "quantization.symmetric": True,
}


def four_bits(name: str, whole: int) -> dict[str, int]:
    """A module's tensors in compressed-tensors, 4 bits, symmetric, groups of 128."""
    module = name.removesuffix(".weight")
    scales = {f"{module}.weight_scale": whole // 128 * 2, f"{module}.weight_shape": 16}
    return {f"{module}.weight_packed": whole // 2, **scales}


def fp8(name: str, whole: int) -> dict[str, int]:
    return {name: whole, f"{name}_scale_inv": whole // 128**2 * 4}


def stored(
    profile: ModelProfile,
    packs: Callable[[str, int], dict[str, int]] = four_bits,
    *,
    head: bool = False,
    kept: str = "nothing",
) -> ModelProfile:
    """The shape as a checkpoint stores it whose projections are packed, but for modules named `kept`."""
    tensors = {"model.visual.patch_embed.proj.weight": 10**9, "mtp.fc.weight": 10**8}
    for name, shape in expected_tensors(profile, range(profile.layers)):
        whole, named = math.prod(shape), name.replace("model.", "model.language_model.", 1)
        packed = name.split(".")[-2] in (*PACKED, *PACKED_MLP) or (head and name == HEAD)
        tensors |= packs(named, whole) if packed and kept not in name else {named: 2 * whole}
    return profile.as_stored(by_profile_part(tensors))


@pytest.fixture(params=["4b", "9b", "27b"])
def shape(request: pytest.FixtureRequest) -> ModelProfile:
    return load_model_profile(f"qwen3.5-{request.param}")


def test_it_reads_what_one_of_that_configuration_reads(shape: ModelProfile) -> None:
    packed = stored(shape)
    assert step_weight_bytes(packed, {}).mean == pytest.approx(step_weight_bytes(shape, G128).mean, rel=1e-9)
    assert weight_bytes(packed, {}) == pytest.approx(weight_bytes(shape, G128), rel=1e-9)


def test_a_head_counts_as_it_is_stored() -> None:
    shape = load_model_profile("qwen3.5-9b")
    with_head = {**G128, "quantization.lm_head": "quantized"}
    packed, plain = stored(shape, head=True), stored(shape)
    assert step_weight_bytes(packed, {}).mean == pytest.approx(step_weight_bytes(shape, with_head).mean)
    assert [head_is_packed(each, {}) for each in (packed, plain, shape, None)] == [True, False, False, False]
    assert head_is_packed(shape, with_head)


def test_eight_bits_and_layers_that_are_kept_count_as_they_are_stored(shape: ModelProfile) -> None:
    sixteen, eight = step_weight_bytes(shape, {}).mean, step_weight_bytes(stored(shape, fp8), {}).mean
    products = sum(2 * part.matmul_parameters for part in shape.parts if part.layer is not None)
    assert eight == pytest.approx(sixteen - products * (1 / 2 - 4 / (2 * 128**2)), rel=1e-9)
    kept = step_weight_bytes(stored(shape, kept="linear_attn"), {}).mean
    gdn = [part for part in shape.parts if part.kind is PartKind.GDN]
    spared = sum(part.matmul_parameters for part in gdn) * (2 - (4 + 16 / 128) / 8)
    assert kept == pytest.approx(step_weight_bytes(stored(shape), {}).mean + spared, rel=1e-9)


def test_layers_that_go_take_what_they_store(shape: ModelProfile) -> None:
    packed = stored(shape, kept="layers.0.")
    left = packed.without_layers(frozenset({1, 2}))
    gone = [part for part in packed.parts if part.layer in (1, 2)]
    spared = sum(packed.stored_bytes_read(part) or 0 for part in gone)
    assert step_weight_bytes(left, {}).mean == step_weight_bytes(packed, {}).mean - spared
    first = next(part for part in left.parts if part.name == "layers.0.mlp")
    assert left.stored_bytes(first) == 2 * first.parameters  # the layer that is kept is the first still
    knobs: dict[str, KnobValue] = {"pruning.method": "depth", "pruning.layers_removed": 2}
    parts = launch_parts(packed, knobs, Asked(512, stored_weight_bytes=1))
    assert parts[0].bytes == round(weight_bytes(after_pruning(packed, knobs), {})) < weight_bytes(packed, {})


def test_what_pruning_spares_is_told_of_the_bytes_that_are_stored(shape: ModelProfile) -> None:
    before = Configuration.of({"pruning.method": "none"})
    after = Configuration.of({"pruning.method": "depth", "pruning.layers_removed": 4})
    plain, packed = (WeightBytesBelief(each, ()).predict(before, after) for each in (shape, stored(shape)))
    # layers are a smaller part of what a step reads where they are packed and the head is not
    assert plain.log_ratio_mean < packed.log_ratio_mean < 0


def planned(shape: ModelProfile, engine: str = "vllm", **more: object) -> Plan:
    asked = {"model": "someone/packed", "engine": engine, "space": "vllm" if engine == "vllm" else "levers"}
    spec = load_campaign("default", {**asked, "target": "modal:H100!"})
    baseline = spec.baseline.model_copy(update={"start": "default", "sweep": {}})
    spec = spec.model_copy(update={"baseline": baseline})
    return make_plan(spec, replace(ModelFound("someone/packed", shape), **more), card_asked("h100"))  # type: ignore[arg-type]


def test_a_plan_tells_the_floor_of_what_is_stored_and_times_by_it(shape: ModelProfile) -> None:
    packed = stored(shape)
    plan, plain = planned(packed, quantized=True, file_bytes=1), planned(shape, file_bytes=1)
    (row,) = plan.floors
    assert row.weights == AS_STORED
    assert row.weight_bytes == step_weight_bytes(packed, {}).mean
    assert row.floor_ms is not None
    assert row.floor_ms < min(each.floor_ms or 0 for each in plain.floors if each.weights == "bfloat16")
    assert plan.first_verdict.most_s < plain.first_verdict.most_s
    assert planned(shape, quantized=True).floors == ()  # its files are elsewhere, and nobody told of them


def test_an_engine_that_computes_with_dense_weights_has_their_floors(shape: ModelProfile) -> None:
    names = [row.weights for row in planned(stored(shape), "reference", quantized=True).floors]
    assert AS_STORED not in names
    assert "bfloat16" in names


A_BASELINE = BaselineJob.model_construct(
    engine="vllm",
    workload=Workload(prompt_tokens=512, new_tokens=129, prompts_per_block=4, warmup_requests=1),
    noise_launches=3,
    noise_blocks=4,
    sweep=(),
    sweep_blocks=2,
    at_once=None,
    kernels=(),
)


def test_a_job_s_limit_goes_by_what_is_stored(shape: ModelProfile) -> None:
    found = [
        job_seconds(A_BASELINE, "modal:H100!", ModelFound("m", each, file_bytes=1), Stored(load_s=60.0))
        for each in (stored(shape), shape)
    ]
    assert found[0] < found[1]


def test_a_baseline_of_a_shape_has_no_time_for_scoring(shape: ModelProfile, tmp_path: Path) -> None:
    """Nothing of it is scored, for its weights are made up."""

    def seconds() -> float:
        model = ModelFound("m", shape, checkpoint=Checkpoint(tmp_path), file_bytes=1)
        return job_seconds(A_BASELINE, "modal:H100!", model, Stored(load_s=60.0))

    with_weights = seconds()
    (tmp_path / SHAPE_FILE).touch()
    assert seconds() < with_weights


def test_a_job_on_a_shape_has_no_time_for_reading_weights(shape: ModelProfile, tmp_path: Path) -> None:
    (tmp_path / SHAPE_FILE).touch()
    few, many = (
        job_seconds(
            A_BASELINE,
            "modal:H100!",
            ModelFound("m", shape, checkpoint=Checkpoint(tmp_path), file_bytes=size),
            Stored(),
        )
        for size in (1, 100_000_000_000)
    )
    assert few == many


def test_of_experts_that_are_stored_in_8_bits_a_step_reads_those_of_its_rows_and_memory_holds_all() -> None:
    dense = load_model_profile("qwen3.5-35b-a3b")
    packed = stored(dense, fp8)
    (first, *_) = (part for part in packed.parts if part.kind is PartKind.EXPERTS)
    scales = first.parameters // 128**2 * 4
    assert packed.stored_bytes(first) == first.parameters + scales
    assert packed.stored_bytes_read(first) == pytest.approx((first.parameters + scales) * 8 / 256)
    one, many, every = (step_weight_bytes(packed, {}, rows).mean for rows in (1, 64, math.inf))
    assert one < many < every
    assert one == pytest.approx(dense.weight_bytes_per_step(FP8), rel=0.002)
    assert many == pytest.approx(dense.weight_bytes_per_step(FP8, 64), rel=0.002)
    held = weight_bytes(packed, {})
    assert held - every == pytest.approx(2 * (dense.vocabulary - 1) * dense.hidden)
    shorter = packed.without_layers(frozenset(range(4)))
    assert weight_bytes(shorter, {}) == pytest.approx(
        held
        - sum(
            size
            for part in packed.parts
            if part.layer in range(4) and (size := packed.stored_bytes(part)) is not None
        )
    )
