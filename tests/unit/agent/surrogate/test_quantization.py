"""What quantization is expected to save and to cost, on metrics of every kind."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.surrogate.cost import build_keys
from agent.surrogate.weight_bytes import step_weight_bytes
from configs.models import load_model_profile
from configs.weight_formats import BFLOAT16, grouped_4_bit
from experiments.engines.reference.inspection import inspect_checkpoint
from experiments.engines.reference.stored_weights import step_weight_bytes as stored_bytes
from experiments.engines.stored_bytes import bits_per_weight
from experiments.measurement.evidence import Metric
from experiments.measurement.judging import Outcome
from experiments.reference_model.load import reference_model_path
from experiments.space.configuration import Configuration, KnobValue
from tests.unit.agent.four_levers import (
    AWQ,
    AWQ_32,
    BASELINE,
    PHYSICS,
    RTN_4,
    RTN_8,
    SHAPE,
    SPACE,
    VIEW,
    beliefs,
    mtp,
    pruned,
    set_to,
    trial,
)

PACKED = replace(PHYSICS, serves_packed=True)
HEAD = set_to({"quantization.lm_head": "quantized"}, AWQ)


@pytest.mark.parametrize(
    ("bits", "group", "symmetric", "each"),
    [(4, 128, False, 4.15625), (4, 32, False, 4.625), (4, 128, True, 4.125), (8, 128, False, 8.1875)],
)
def test_bits_a_weight_with_scale_and_zero_point(bits: int, group: int, symmetric: bool, each: float) -> None:
    assert bits_per_weight(bits, group, symmetric) == each


@pytest.mark.parametrize("model", ["qwen3.5-4b", "qwen3.5-9b", "reference"])
def test_step_bytes_are_those_of_the_floor_for_the_same_format(model: str) -> None:
    shape = load_model_profile(model)
    formats = {BASELINE: BFLOAT16, AWQ: grouped_4_bit(128), AWQ_32: grouped_4_bit(32)}
    formats[HEAD] = grouped_4_bit(128, head=True)
    for configuration, weights in formats.items():
        found = step_weight_bytes(shape, configuration)
        assert found.mean == pytest.approx(shape.weight_bytes_per_step(weights))
        assert found.sd == 0


def test_layers_that_go_take_their_bytes_along_and_leave_open_which() -> None:
    gone = step_weight_bytes(SHAPE, pruned(2, restrict="gdn"))
    assert gone.mean == pytest.approx(SHAPE.without_layers(frozenset({0, 1})).weight_bytes_per_step(BFLOAT16))
    assert gone.sd == pytest.approx(0)
    assert step_weight_bytes(SHAPE, pruned(2)).sd > 0


@given(st.sampled_from([{"quantization.out_proj_bits": 8}, {"quantization.keep": "attention"},
                        {"quantization.keep": "edges"}]))  # fmt: skip
def test_what_is_spared_costs_bytes_and_quality(knobs: dict[str, KnobValue]) -> None:
    spared = set_to(knobs, AWQ)
    assert beliefs().predict(AWQ, spared, Metric.STEP_WEIGHT_BYTES).log_ratio_mean > 0
    assert beliefs().predict(AWQ, spared, Metric.NLL_BITS).log_ratio_mean < 0
    assert beliefs().p_quality(spared) > beliefs().p_quality(AWQ)


def test_bytes_are_predicted_nearly_exactly_and_time_not_at_all_where_weights_are_dequantized() -> None:
    size = beliefs().predict(BASELINE, AWQ, Metric.STEP_WEIGHT_BYTES)
    assert math.exp(size.log_ratio_mean) == pytest.approx(
        SHAPE.weight_bytes_per_step(grouped_4_bit(128)) / SHAPE.weight_bytes_per_step(BFLOAT16)
    )
    assert size.log_ratio_sd < 0.01
    time = beliefs().predict(BASELINE, AWQ)
    assert time.log_ratio_mean == 0
    assert time.log_ratio_sd < 0.05


def test_an_engine_of_packed_weights_saves_the_floor_of_the_bytes() -> None:
    size = beliefs().predict(BASELINE, AWQ, Metric.STEP_WEIGHT_BYTES).log_ratio_mean
    floor = PHYSICS.floor_ms / PHYSICS.tpot_ms
    time = beliefs(physics=PACKED).predict(BASELINE, AWQ)
    assert math.exp(time.log_ratio_mean) == pytest.approx(1 - floor + floor * math.exp(size))
    assert time.log_ratio_sd > 0.14  # beside what the kernel adds
    blind = replace(PACKED, shape=None)
    assert beliefs(physics=blind).predict(BASELINE, AWQ).log_ratio_mean < 0


def test_without_a_shape_bytes_come_from_the_parts_of_the_profile_with_more_doubt() -> None:
    known = beliefs(physics=replace(PHYSICS, shape=None))
    found = known.predict(BASELINE, AWQ, Metric.STEP_WEIGHT_BYTES)
    assert -1.4 < found.log_ratio_mean < -0.4
    assert found.log_ratio_sd > 0.05
    assert known.predict(BASELINE, HEAD, Metric.STEP_WEIGHT_BYTES).log_ratio_mean < found.log_ratio_mean


def test_fewer_bits_and_larger_groups_are_expected_to_cost_more_quality() -> None:
    known = beliefs()
    order = [RTN_8, AWQ_32, AWQ, RTN_4]
    chances = [known.p_quality(each) for each in order]
    assert chances == sorted(chances, reverse=True)
    losses = [known.predict(BASELINE, each, Metric.NLL_BITS).log_ratio_mean for each in order]
    assert losses == sorted(losses)


def test_pruning_a_quantized_model_costs_more_unless_it_was_ranked_so() -> None:
    known = beliefs()
    base = known.predict(BASELINE, pruned(1), Metric.NLL_BITS).log_ratio_mean
    on_awq = known.predict(AWQ, pruned(1, AWQ), Metric.NLL_BITS).log_ratio_mean
    ranked = known.predict(AWQ, pruned(1, AWQ, ranked_on="quantized"), Metric.NLL_BITS).log_ratio_mean
    assert base < ranked < on_awq
    assert known.p_quality(pruned(1, criterion="greedy_kl")) > known.p_quality(pruned(1))


def test_a_verdict_on_bits_teaches_quality_and_one_on_bytes_teaches_no_time() -> None:
    lost = beliefs([trial(AWQ_32, Outcome.REFUTED, 0.01, control=AWQ, metric=Metric.NLL_BITS)])
    assert lost.predict(AWQ, AWQ_32, Metric.NLL_BITS).log_ratio_mean > 0
    assert lost.p_quality(AWQ_32) < beliefs().p_quality(AWQ_32)
    smaller = beliefs([trial(AWQ, Outcome.SUPPORTED, -0.6, metric=Metric.STEP_WEIGHT_BYTES)])
    assert smaller.predict(BASELINE, AWQ) == beliefs().predict(BASELINE, AWQ)


def test_a_metric_that_no_hypothesis_is_about_is_refused() -> None:
    assert beliefs().predict(BASELINE, AWQ, Metric.TASK_CORRECT).log_ratio_sd >= 0.03
    with pytest.raises(ValueError, match="no hypothesis is about kl_nats"):
        beliefs().predict(BASELINE, AWQ, Metric.KL_NATS)


POINTS = [
    BASELINE, AWQ, AWQ_32, RTN_8, HEAD, mtp(2), mtp(3, AWQ), pruned(1),
    pruned(2, AWQ, order="after_quantization"),
]  # fmt: skip
CLAIMED = (Metric.TPOT_MS, Metric.STEP_WEIGHT_BYTES, Metric.NLL_BITS, Metric.TASK_CORRECT)


@given(st.sampled_from(POINTS), st.sampled_from(POINTS), st.sampled_from(CLAIMED))
def test_the_way_back_is_the_inverse_on_every_metric(a: Configuration, b: Configuration, on: Metric) -> None:
    known = beliefs([trial(mtp(2), Outcome.SUPPORTED, -0.2, length=2.1)])
    there, back = known.predict(a, b, on), known.predict(b, a, on)
    assert there.log_ratio_mean == pytest.approx(-back.log_ratio_mean)
    assert there.log_ratio_sd == pytest.approx(back.log_ratio_sd)


def shared(one: Configuration, other: Configuration) -> set[str]:
    return set(build_keys(VIEW, one)) & set(build_keys(VIEW, other))


def test_what_two_configurations_share_is_built_once() -> None:
    assert shared(pruned(1), pruned(1, AWQ)), "the pruned checkpoint is quantized afterwards"
    assert not shared(pruned(1), pruned(1, AWQ, order="after_quantization"))
    assert shared(AWQ, pruned(1, AWQ, order="after_quantization"))
    assert shared(AWQ, pruned(1, AWQ, ranked_on="quantized")), "layers are ranked on the quantized model"
    assert shared(AWQ, mtp(2, AWQ)) == set(build_keys(VIEW, AWQ))
    assert build_keys(VIEW, mtp(2)) == {}


def test_another_draw_of_the_calibration_text_is_expected_to_change_nothing_but_is_built_anew() -> None:
    other = set_to({"quantization.seed": 1}, AWQ)
    assert other != AWQ
    assert beliefs().predict(AWQ, other, Metric.NLL_BITS).log_ratio_mean == 0
    learnt = beliefs([trial(other, Outcome.SUPPORTED, 0.2, control=AWQ)])
    assert learnt.predict(AWQ, other).log_ratio_mean == 0
    assert learnt.predict(BASELINE, other) == learnt.predict(BASELINE, AWQ)
    assert not shared(AWQ, other)


def test_the_second_use_of_a_quantized_checkpoint_is_cheaper_and_greedy_ranking_dearer() -> None:
    once = beliefs([trial(AWQ, Outcome.REFUTED, 0.0, cost_s=120.0)])
    saved = sum(build_keys(VIEW, AWQ).values())
    assert once.cost_s(mtp(2, AWQ)) < once.cost_s(mtp(2, AWQ_32)) - saved / 2
    ways = [(2, "block_influence"), (2, "leave_one_out_kl"), (2, "greedy_kl"), (4, "greedy_kl")]
    cost = [beliefs().cost_s(pruned(layers, criterion=criterion)) for layers, criterion in ways]
    assert cost == sorted(cost)
    assert SPACE.is_legal(AWQ)


def test_the_bytes_of_the_packaged_model_are_those_that_its_files_hold() -> None:
    files = inspect_checkpoint(reference_model_path())
    assert step_weight_bytes(SHAPE, BASELINE).mean == stored_bytes(files)
