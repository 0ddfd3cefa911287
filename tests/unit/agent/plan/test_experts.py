"""Of a Mixture of Experts memory holds all experts, and a step reads those that its rows are sent to."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.campaign.decision.counted_launches import prompt_launches
from agent.campaign.decision.counted_steps import counted_steps
from agent.plan.card import card_asked
from agent.plan.floor import floors
from agent.plan.load_and_request import (
    CPU_BYTES_PER_S,
    expected_request,
    prompt_ms,
    prompt_token_ms,
    weights_read,
)
from agent.plan.model import find_model
from agent.plan.plan import Plan, make_plan
from agent.surrogate.drafting import DraftingCost
from agent.surrogate.physics import Physics
from agent.surrogate.weight_bytes import read_by_drafts, step_weight_bytes
from agent.tables.floor import Drafter, step_bytes
from agent.tables.grid import TableWorkload
from configs.campaign import load_campaign
from configs.campaign_plan import WorkloadSpec
from configs.hardware import load_hardware_profile
from configs.models import EVERY_EXPERT, ModelProfile, load_model_profile
from configs.weight_formats import BFLOAT16, FP8
from experiments.engines.launch_memory import Asked, after_pruning, launch_parts, weight_bytes
from experiments.engines.stored_bytes import bits_per_weight, bytes_of_parts, part_bytes, step_rows
from experiments.space.configuration import Configuration, KnobValue
from tests.unit.agent.gpu_desk import gpu_desk

MIXTURE, NINE = load_model_profile("qwen3.5-35b-a3b"), load_model_profile("qwen3.5-9b")
H200 = load_hardware_profile("h200")
SHAPE = load_campaign("shape").plan
PACKED: dict[str, KnobValue] = {
    "quantization.method": "awq",
    "quantization.bits": 4,
    "quantization.group_size": 32,
    "quantization.symmetric": True,
}
MTP: dict[str, KnobValue] = {"drafting.method": "mtp", "drafting.draft_tokens": 3}
GB = 1e9


def workload(at_once: int, prompt_tokens: int = 512) -> WorkloadSpec:
    changes = {"concurrency": at_once, "prompt_tokens": prompt_tokens, "prompts_per_block": 4 * at_once}
    return SHAPE.workload.model_copy(update=changes)


def plan_on(
    card: str,
    concurrency: int = 1,
    model: ModelProfile = MIXTURE,
    knobs: dict[str, KnobValue] | None = None,
) -> Plan:
    spec = load_campaign("shape", {"model": model.name})
    asked = spec.plan.model_copy(update={"workload": workload(concurrency)})
    spec = spec.model_copy(update={"plan": asked})
    return make_plan(spec, find_model(model.name), card_asked(card), knobs)


@given(st.integers(1, 200), st.integers(0, 4))
def test_memory_holds_all_experts_however_many_rows_a_step_has(sequences: int, drafts: int) -> None:
    knobs: dict[str, KnobValue] = {**MTP, "drafting.draft_tokens": drafts} if drafts else {}
    parts = {part.name: part.bytes for part in launch_parts(MIXTURE, knobs, Asked(640, sequences))}
    assert parts["weights"] == 2 * MIXTURE.text_parameters == weight_bytes(MIXTURE, knobs)
    assert parts.get("MTP head", 0) == (2 * MIXTURE.mtp_parameters if drafts else 0)


@given(st.integers(1, 2000), st.integers(1, 2000))
def test_a_step_reads_more_the_more_rows_it_has_and_of_a_dense_model_always_the_same(
    rows: int, more: int
) -> None:
    few, many, every = (
        step_weight_bytes(MIXTURE, {}, each).mean for each in (rows, rows + more, EVERY_EXPERT)
    )
    assert few <= many <= every
    assert step_weight_bytes(NINE, {}, rows) == step_weight_bytes(NINE, {})
    assert few == pytest.approx(MIXTURE.weight_bytes_per_step(BFLOAT16, rows))


def test_what_lies_in_memory_is_what_a_step_of_many_rows_reads_and_the_embedding() -> None:
    table, one_row = 2.0 * MIXTURE.vocabulary * MIXTURE.hidden, 2.0 * MIXTURE.hidden
    every = step_weight_bytes(MIXTURE, {}, EVERY_EXPERT).mean
    assert weight_bytes(MIXTURE, {}) == every - one_row + table


@pytest.mark.parametrize(
    ("card", "bits", "gb"), [("24GB", 4, 18.7), ("48GB", 8, 37.8), ("h100", 8, 37.8), ("h200", None, 69.3)]
)
def test_on_a_card_that_holds_no_70_gb_of_weights_it_begins_from_packed_ones(
    card: str, bits: int | None, gb: float
) -> None:
    found = plan_on(card)
    weights = next(part for part in found.memory.parts if part.name == "weights")
    assert weights.bytes / GB == pytest.approx(gb, abs=0.1)
    assert found.configuration.get("quantization.bits") == bits
    assert found.memory.rooms[0].fits
    assert found.start.fits


def test_on_a_card_that_not_even_4_bits_fit_on_nothing_is_begun() -> None:
    found = plan_on("16GB")
    assert not found.start.fits
    assert not found.memory.rooms[0].fits
    assert "a card such as NVIDIA H200 SXM (141 GB)" in found.memory.sentences[0]


@pytest.mark.parametrize(("at_once", "read_gb"), [(1, 5.89), (4, 11.56), (64, 59.86)])
def test_the_floor_reads_the_experts_of_as_many_tokens_as_are_under_way(at_once: int, read_gb: float) -> None:
    rows = {row.weights: row for row in plan_on("h200", at_once).floors}
    assert list(rows) == ["bfloat16", "fp8", "w4_g128", "w4_g32", "w4_g128_head"]
    assert rows["bfloat16"].weight_bytes / GB == pytest.approx(read_gb, abs=0.01)
    assert rows["fp8"].weight_bytes == MIXTURE.weight_bytes_per_step(FP8, at_once)
    for name in ("w4_g128", "w4_g32"):
        assert rows[name].weight_bytes < rows["fp8"].weight_bytes < rows["bfloat16"].weight_bytes
    with_zero_points: dict[str, KnobValue] = {**PACKED, "quantization.symmetric": False}
    assert rows["w4_g32"].weight_bytes == pytest.approx(
        step_weight_bytes(MIXTURE, with_zero_points, at_once).mean
    )
    stored = floors(MIXTURE, None, on_gpu=True, context_tokens=1, sequences=at_once, as_stored=True)
    assert stored[0].weight_bytes == pytest.approx(rows["bfloat16"].weight_bytes)


def test_the_floor_reads_the_experts_of_drafts_that_are_verified() -> None:
    plain, drafted, four = (
        plan_on("h200", at_once, knobs=knobs) for at_once, knobs in ((1, None), (1, MTP), (4, None))
    )
    assert [each.step_rows for each in (plain, drafted, four)] == [1, 4, 4]
    for one, other, same in zip(plain.floors, drafted.floors, four.floors, strict=True):
        assert one.weight_bytes < other.weight_bytes == same.weight_bytes
        assert one.cache_bytes == other.cache_bytes, "the requests are as many"
    assert plan_on("h200", model=NINE, knobs=MTP).floors == plan_on("h200", model=NINE).floors


def test_kernels_for_what_beside_experts_is_packed_are_waited_for() -> None:
    for model in (MIXTURE, NINE):
        assert "timing kernels" in " ".join(plan_on("h200", model=model).first_verdict.basis)


@given(
    st.sampled_from([4, 8]),
    st.sampled_from([32, 128]),
    st.booleans(),
    st.sampled_from([1, 4, 64, EVERY_EXPERT]),
)
def test_packed_experts_take_their_bits_of_what_the_rows_read(
    bits: int, group_size: int, symmetric: bool, rows: float
) -> None:
    knobs: dict[str, KnobValue] = {
        **PACKED,
        "quantization.bits": bits,
        "quantization.group_size": group_size,
        "quantization.symmetric": symmetric,
    }
    each = bits_per_weight(bits, group_size, symmetric)
    for part in MIXTURE.parts:
        if part.kind == "experts":
            read = part.matmul_parameters - MIXTURE.unread_parameters(part, rows)
            assert part_bytes(MIXTURE, part, knobs, rows) == pytest.approx(read * each / 8)
        if part.kind == "mlp":
            high = 2 * MIXTURE.hidden * (256 + 1)
            packed = 3 * MIXTURE.hidden * MIXTURE.intermediate
            assert part_bytes(MIXTURE, part, knobs, rows) == pytest.approx(packed * each / 8 + high)


def test_the_first_and_the_last_layers_experts_stay_where_edges_are_kept() -> None:
    experts = [part for part in MIXTURE.parts if part.kind == "experts"]
    kept = [
        part_bytes(MIXTURE, part, {**PACKED, "quantization.keep": "edges"}, EVERY_EXPERT)
        == 2 * part.parameters
        for part in experts
    ]
    assert kept == [True, *[False] * 38, True]
    spared = [part_bytes(MIXTURE, part, {**PACKED, "quantization.keep": "attention"}) for part in experts]
    assert spared == [part_bytes(MIXTURE, part, PACKED) for part in experts]


def test_memory_holds_all_packed_experts() -> None:
    parts = {part.name: part for part in launch_parts(MIXTURE, {**PACKED, **MTP}, Asked(640, 1))}
    every = step_weight_bytes(MIXTURE, PACKED, EVERY_EXPERT).mean
    table = 2 * MIXTURE.vocabulary * MIXTURE.hidden
    assert parts["weights"].bytes == pytest.approx(every + table - 2 * MIXTURE.hidden)
    assert parts["weights"].bytes / GB == pytest.approx(21.0, abs=0.1)
    assert parts["MTP head"].bytes == 2 * MIXTURE.mtp_parameters, "its experts stay in 16 bits"


def test_a_prompt_reads_packed_experts_in_their_bits() -> None:
    sixteen, four = (
        weights_read(MIXTURE, knobs, workload(1, 512), packed=True).more_for_prompt for knobs in ({}, PACKED)
    )
    assert four == pytest.approx(sixteen * bits_per_weight(4, 32, symmetric=True) / 16)
    assert prompt_ms(MIXTURE, H200, 512, {}) == pytest.approx(1e3 * H200.read_time_s(sixteen))
    assert prompt_ms(MIXTURE, H200, 512, PACKED) == pytest.approx(
        max(1e3 * H200.read_time_s(four), 512 * prompt_token_ms(MIXTURE, H200))
    )
    assert prompt_ms(NINE, H200, 512, PACKED) == 512 * prompt_token_ms(NINE, H200)


def test_a_tables_floor_reads_packed_experts_and_an_mtp_head_in_16_bits() -> None:
    asked = TableWorkload(4, 512, 128, 4)
    plain, drafted = (step_bytes(MIXTURE, Configuration.of({**PACKED, **more}), asked) for more in ({}, MTP))
    assert plain.weights == step_weight_bytes(MIXTURE, PACKED, 4).mean
    dense = step_bytes(MIXTURE, Configuration.of(MTP), asked)
    assert drafted.drafter == dense.drafter


def test_a_prompt_takes_its_tokens_own_experts_and_at_least_the_reading_of_all_that_they_are_sent_to() -> (
    None
):
    token_ms = prompt_token_ms(MIXTURE, H200)
    layers = MIXTURE.active_parameters - 2 * MIXTURE.vocabulary * MIXTURE.hidden
    assert token_ms == pytest.approx(1e3 * 2 * layers / (0.4 * H200.bf16_flop_per_s), rel=0.02)
    short, long = (expected_request(MIXTURE, workload(1, each), H200, on_gpu=True) for each in (512, 8192))
    read = weights_read(MIXTURE, {}, workload(1, 512), packed=True)
    assert read.step_bytes == MIXTURE.weight_bytes_per_step(BFLOAT16)
    assert read.prompt_bytes / GB == pytest.approx(68.3, abs=0.1)
    assert short.ttft_ms - short.tpot_ms == pytest.approx(1e3 * H200.read_time_s(read.more_for_prompt))
    assert long.ttft_ms - long.tpot_ms == pytest.approx(8192 * token_ms)
    guessed = [expected_request(MIXTURE, workload(each), None, on_gpu=False) for each in (1, 8)]
    assert guessed[0].tpot_ms < guessed[1].tpot_ms
    dense = weights_read(NINE, {}, workload(8), packed=True)
    assert dense.more_for_prompt == 0


def test_a_prompt_among_many_takes_what_a_lone_one_does() -> None:
    alone, many = (expected_request(MIXTURE, workload(each), H200, on_gpu=True) for each in (1, 64))
    prompt_ms = alone.ttft_ms - alone.tpot_ms
    assert (many.ttft_ms - many.tpot_ms) / 64 == pytest.approx(prompt_ms)
    assert many.ttft_ms >= 64 * prompt_ms
    read = weights_read(MIXTURE, MTP, workload(64), packed=True)
    assert read.more_for_prompt == weights_read(MIXTURE, {}, workload(1), packed=True).more_for_prompt
    assert weights_read(MIXTURE, {}, workload(64, 1), packed=True).more_for_prompt == 0
    one, eight = (expected_request(MIXTURE, workload(each), None, on_gpu=False) for each in (1, 8))
    assert eight.prompt_ms == pytest.approx(one.prompt_ms), "on a processor too"


def test_a_processor_reads_the_experts_of_a_prompt_too() -> None:
    read = weights_read(MIXTURE, {}, workload(1), packed=False)
    found = expected_request(MIXTURE, workload(1), None, on_gpu=False, weights=read)
    as_of_a_row = replace(read, prompt_bytes=read.row_bytes)
    without = expected_request(MIXTURE, workload(1), None, on_gpu=False, weights=as_of_a_row)
    assert read.more_for_prompt > 0
    more_ms = 1e3 * read.more_for_prompt / CPU_BYTES_PER_S
    assert found.ttft_ms - without.ttft_ms == pytest.approx(more_ms)


def test_steps_with_others_at_once_read_more_of_the_weights() -> None:
    alone, others = (expected_request(MIXTURE, workload(each), H200, on_gpu=True) for each in (1, 16))
    more = MIXTURE.weight_bytes_per_step(BFLOAT16, 16) - MIXTURE.weight_bytes_per_step(BFLOAT16)
    assert others.tpot_ms - alone.tpot_ms > 1e3 * H200.read_time_s(more)
    assert step_rows({}, 16) == 16
    assert step_rows(MTP, 16) == 64
    drafted = weights_read(MIXTURE, MTP, workload(4), packed=True)
    assert drafted.step_bytes == step_weight_bytes(MIXTURE, MTP, 16).mean


@pytest.mark.parametrize("knobs", [{}, {"serving.weight_dtype": "fp8"}])
def test_a_tables_floor_reads_the_experts_of_drafts_too_and_the_head_those_of_a_token_each(
    knobs: dict[str, KnobValue],
) -> None:
    fp8 = bool(knobs)
    asked = TableWorkload(4, 512, 128, 4)
    plain = step_bytes(MIXTURE, Configuration.of(knobs), asked)
    drafted = step_bytes(MIXTURE, Configuration.of({**knobs, **MTP}), asked)
    form = FP8 if fp8 else BFLOAT16
    assert plain.weights == pytest.approx(MIXTURE.weight_bytes_per_step(form, 4))
    assert drafted.weights == pytest.approx(MIXTURE.weight_bytes_per_step(form, 16))
    head = 2 * MIXTURE.vocabulary * MIXTURE.hidden
    (mtp,) = (part for part in MIXTURE.parts if part.kind == "mtp")
    own = mtp.matmul_parameters - MIXTURE.unread_parameters(mtp, 4)
    assert drafted.drafter == pytest.approx(3 * (own * (1 if fp8 else 2) + 2 * mtp.other_parameters + head))
    dense = step_bytes(NINE, Configuration.of(knobs), asked, Drafter())
    assert dense.weights == step_bytes(NINE, Configuration.of({**knobs, **MTP}), asked).weights


def test_verifying_drafts_costs_the_experts_that_they_are_sent_to() -> None:
    assert read_by_drafts(NINE, {}, 1, 8) == ()
    more = read_by_drafts(MIXTURE, {}, 1, 16)
    assert more == tuple(sorted(more))
    assert more[2] == pytest.approx(11.563 / 5.893 - 1, abs=1e-3), "four rows over one"
    baseline = Configuration.of({"drafting.method": "none"})
    at_floor = Physics(
        baseline, 2.0, bandwidth_bytes_per_s=1.0, shape=MIXTURE, requests=1
    )  # nothing was profiled, so that a share is assumed to be bytes
    floor = at_floor.floor_ms / at_floor.tpot_ms
    plain = Physics(baseline, 2.0, bandwidth_bytes_per_s=1.0).drafting_cost
    cost = at_floor.drafting_cost
    assert plain == DraftingCost.of(())
    assert cost.step("ngram", 3) - plain.step("ngram", 3) == pytest.approx(floor * more[2])
    assert cost.growth_of(0) == 0, "without drafts nothing more is read"
    assert cost.growth_of(99) - plain.growth_of(99) == pytest.approx(floor * more[-1])
    crowded = Physics(baseline, 2.0, bandwidth_bytes_per_s=1.0, shape=MIXTURE, requests=64).drafting_cost
    assert crowded.read[2] < cost.read[2], "where many are at once most experts are read anyway"


def test_the_loop_of_steps_reads_the_experts_of_all_prompts_of_a_step() -> None:
    baseline = Configuration.of({"serving.max_batch_tokens": "auto"})
    plan = SHAPE.model_copy(update={"workload": workload(16), "metric": "tpot_ms"})
    found, dense = (counted_steps(plan, H200, each, baseline, 12.0) for each in (MIXTURE, NINE))
    assert found is not None
    assert dense is not None
    assert found.least_ms == pytest.approx(
        1e3 * H200.read_time_s(MIXTURE.weight_bytes_per_step(BFLOAT16, 16))
    )
    assert found.prompts_ms == pytest.approx(1e3 * H200.read_time_s(68.3e9), rel=1e-3)
    assert found.times.prompts_ms == found.prompts_ms
    assert dense.prompts_ms == dense.times.prompts_ms == 0


def test_a_lone_prompt_waits_for_the_experts_too() -> None:
    baseline = Configuration.of({"serving.max_graph_tokens": "auto"})
    plan = SHAPE.model_copy(update={"workload": workload(1), "metric": "ttft_ms"})
    found = prompt_launches(plan, H200, MIXTURE, baseline, 40.0)
    assert found is not None
    assert found.arithmetic_ms > 512 * prompt_token_ms(MIXTURE, H200)
    packed = prompt_launches(plan, H200, MIXTURE, Configuration.of({**baseline, **PACKED}), 40.0)
    assert packed is not None
    assert packed.arithmetic_ms < found.arithmetic_ms
    dense = prompt_launches(plan, H200, NINE, baseline, 40.0)
    assert dense is not None
    assert dense.arithmetic_ms == 512 * prompt_token_ms(NINE, H200)


def test_a_desk_prices_drafts_by_the_experts_of_all_that_are_under_way() -> None:
    asked = {"concurrency": 16, "prompts_per_block": 64, "prompt_tokens": 512, "new_tokens": 129}
    dense = gpu_desk(10.2, 1900.0, workload=asked)
    found = replace(dense, legal=replace(dense.legal, profile=MIXTURE))
    physics, cost = found.beliefs.latency.physics, found.view.drafting_cost
    assert physics.requests == 16
    assert cost is not None
    assert cost == physics.drafting_cost
    share = physics.floor_ms / physics.tpot_ms
    assert cost.read[2] == pytest.approx(
        share * read_by_drafts(MIXTURE, found.baseline_configuration, 16, 3)[2]
    )
    assert cost.read[2] > 0
    dense_cost = dense.view.drafting_cost
    assert dense_cost is not None
    assert dense_cost.read == ()


def test_of_layers_that_may_go_the_smallest_with_all_their_experts_is_taken() -> None:
    """The attention of a layer is smaller than a GatedDeltaNet, by less than its experts, as they are stored,
    are larger; by one row's experts it would be the smaller layer."""
    kinds = ("linear_attention", "full_attention")
    two = ModelProfile.model_validate({**MIXTURE.model_dump(), "layer_types": kinds})
    stored = {part.name: 2 * part.parameters for part in two.parts if part.layer is not None}
    stored["layers.0.mlp.experts"] -= 100_000_000
    packed = two.as_stored(stored)
    sizes = [
        [
            sum(bytes_of_parts(packed, {}, rows)(part) for part in packed.parts if part.layer == layer)
            for layer in (0, 1)
        ]
        for rows in (1, EVERY_EXPERT)
    ]
    assert sizes[0][0] > sizes[0][1]
    assert sizes[1][0] < sizes[1][1]
    left = after_pruning(packed, {"pruning.method": "depth", "pruning.layers_removed": 1})
    assert left.layer_types == ("full_attention",)
