"""Gates: what can't be judged, and what is confounded, is named."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest

from agent.judge.consequences import explained
from agent.judge.gates import check
from experiments.measurement.evidence import (
    Arm,
    Evidence,
    Json,
    LaunchRecord,
    Metric,
    NoiseProfile,
    Sample,
    Stage,
)
from experiments.measurement.judging import Outcome
from experiments.space.configuration import Change

NOISE = NoiseProfile("target", Metric.TPOT_MS, 4, 3, 0.01)
COMPILE = Change("serving.compile", "off", "default")
EAGER: dict[str, Json] = {
    "dtype": "float32",
    "threads": 2,
    "compile": "off",
    "compiled_steps": {},
    "graphs": 0,
    "layers": ["gdn", "attention"],
    "versions": {"torch": "2.13.0"},
}
COMPILED: dict[str, Json] = {
    **EAGER,
    "compile": "default",
    "compiled_steps": {"256": {"calls": 3, "package": "abc", "package_reused": False}},
    "graphs": 1,
}


def record(
    arm: Arm,
    resolved: Mapping[str, Json],
    values: tuple[float, ...] = (20.0, 21.0),
    prompt: str = "p",
    stage: Stage = Stage.QUICK,
    metric: Metric = Metric.TPOT_MS,
) -> LaunchRecord:
    samples = tuple(Sample(0, 0, f"{prompt}{k}", k, metric, value) for k, value in enumerate(values))
    return LaunchRecord(arm, 0, stage, arm.value, resolved, {}, 1.0, samples)


def evidence(*records: LaunchRecord, changes: tuple[Change, ...] = (COMPILE,)) -> Evidence:
    return Evidence(records, NOISE, changes)


CONTROL = record(Arm.CONTROL, EAGER)
CANDIDATE = record(Arm.CANDIDATE, COMPILED)


def outcome_and_reason(found: Evidence) -> tuple[Outcome, str]:
    gate = check(found, Metric.TPOT_MS)
    assert gate is not None
    return gate.outcome, gate.reason


def test_a_difference_that_the_change_explains_passes() -> None:
    assert check(evidence(CONTROL, CANDIDATE), Metric.TPOT_MS) is None


def test_a_difference_that_the_change_does_not_explain_is_confounded_and_named() -> None:
    other = record(Arm.CANDIDATE, {**COMPILED, "threads": 1})
    outcome, reason = outcome_and_reason(evidence(CONTROL, other))
    assert outcome == Outcome.CONFOUNDED
    assert "threads is 2 in the control, 1 in the candidate" in reason
    assert "serving.compile off → default" in reason


def test_another_version_inside_the_resolved_configuration_is_found() -> None:
    other = record(Arm.CANDIDATE, {**COMPILED, "versions": {"torch": "2.14.0"}})
    assert "versions.torch" in outcome_and_reason(evidence(CONTROL, other))[1]


def test_an_arm_whose_launches_disagree_is_confounded_even_where_the_other_arm_shares_a_value() -> None:
    second = replace(record(Arm.CONTROL, {**EAGER, "threads": 1}), index=1)
    assert outcome_and_reason(evidence(CONTROL, second, CANDIDATE))[0] == Outcome.CONFOUNDED


def test_how_often_compiled_code_was_called_is_history_and_not_compared() -> None:
    again = {**COMPILED, "compiled_steps": {"256": {"calls": 99, "package": "abc", "package_reused": True}}}
    threads = Change("serving.threads", 2, 1)
    found = evidence(
        record(Arm.CONTROL, COMPILED), record(Arm.CANDIDATE, {**again, "threads": 1}), changes=(threads,)
    )
    assert check(found, Metric.TPOT_MS) is None


@pytest.mark.parametrize(
    ("key", "knob", "expected"),
    [
        ("layers", "pruning.layers_removed", True),
        ("parameters", "pruning.method", True),
        ("weight_bytes", "serving.dtype", True),
        ("dtype", "pruning.layers_removed", False),
        ("threads", "serving.dtype", False),
        ("versions.torch", "serving.compile", False),
        ("flux", "serving.flux", True),
        ("flux.capacitor", "serving.flux", True),
        ("quantum_flux", "serving.flux", False),
        ("weights.stored", "quantization.bits", True),
        ("weights.stored", "serving.dtype", False),
        ("weights.served", "serving.dtype", True),
        ("weights.latency_representative", "quantization.method", False),
        ("step_weight_bytes", "pruning.layers_removed", True),
        ("drafting.verify.tokens", "drafting.draft_tokens", True),
        ("drafting.method", "serving.dtype", False),
        ("compile.capacity_256_tokens_3", "drafting.method", True),
        ("compile.mode", "drafting.method", False),
    ],
)
def test_each_knob_explains_its_own_consequences_only(key: str, knob: str, expected: bool) -> None:
    assert explained(key, [Change(knob, 1, 2)]) is expected


def scored(resolved: Mapping[str, Json], index: int = 0, load_s: float = 2.0) -> LaunchRecord:
    found = record(Arm.CANDIDATE, resolved, stage=Stage.EVALUATE, metric=Metric.NLL_BITS)
    return replace(found, index=index, load_s=load_s)


@pytest.mark.parametrize(
    ("ran", "told"),
    [
        (COMPILED, None),
        ({**COMPILED, "threads": 1}, "threads was 2 when it was timed, 1 when it was scored"),
        ({**COMPILED, "linear_kernel": "other"}, "linear_kernel was not told when it was timed, other when"),
        ({**COMPILED, "sm_clock_mhz": 1500}, None),
        ({"dtype": "float32"}, None),
        ({}, None),
    ],
)
def test_the_quality_must_be_that_of_what_was_timed(ran: Mapping[str, Json], told: str | None) -> None:
    timed = record(Arm.CONTROL, EAGER), record(Arm.CANDIDATE, COMPILED)
    found = check(evidence(*timed, scored(ran)), Metric.TPOT_MS)
    if told is None:
        assert found is None
        return
    assert found is not None
    assert found.outcome is Outcome.CONFOUNDED
    assert told in found.reason


def test_a_process_that_is_scored_after_it_was_timed_may_tell_more_by_then() -> None:
    timed = record(Arm.CONTROL, EAGER), record(Arm.CANDIDATE, COMPILED)
    later = {**COMPILED, "compiled_steps": {"256": {"calls": 9}, "512": {"mode": "plain"}}}
    assert check(evidence(*timed, scored(later, load_s=1.0)), Metric.TPOT_MS) is None
    assert check(evidence(*timed, scored(later)), Metric.TPOT_MS) is not None


def test_arms_that_answered_different_prompts_are_confounded() -> None:
    other = record(Arm.CANDIDATE, COMPILED, prompt="q")
    outcome, reason = outcome_and_reason(evidence(CONTROL, other))
    assert outcome == Outcome.CONFOUNDED
    assert "different prompts" in reason


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0, -1.0])
def test_a_latency_that_cannot_be_is_refused_and_named(value: float) -> None:
    broken = record(Arm.CANDIDATE, COMPILED, (20.0, value))
    outcome, reason = outcome_and_reason(evidence(CONTROL, broken))
    assert outcome == Outcome.INCONCLUSIVE
    assert "tpot_ms of 'p1' in candidate launch 0" in reason


def test_a_candidate_whose_bits_are_not_a_number_is_infeasible() -> None:
    broken = record(Arm.CANDIDATE, COMPILED, (math.nan,), stage=Stage.EVALUATE, metric=Metric.NLL_BITS)
    assert outcome_and_reason(evidence(CONTROL, CANDIDATE, broken))[0] == Outcome.INFEASIBLE


def test_documents_of_different_length_are_confounded() -> None:
    sizes = [
        record(arm, {}, (size,), stage=Stage.EVALUATE, metric=Metric.TEXT_BYTES)
        for arm, size in ((Arm.CONTROL, 600.0), (Arm.CANDIDATE, 601.0))
    ]
    assert "600 bytes in one arm and 601" in outcome_and_reason(evidence(CONTROL, CANDIDATE, *sizes))[1]


def test_an_arm_of_two_configurations_is_confounded() -> None:
    other = replace(CONTROL, index=1, configuration_digest="another")
    assert outcome_and_reason(evidence(CONTROL, other, CANDIDATE))[0] == Outcome.CONFOUNDED


def test_a_failure_is_infeasible_with_its_cause() -> None:
    outcome, reason = outcome_and_reason(replace(evidence(CONTROL), failure="out of memory."))
    assert outcome == Outcome.INFEASIBLE
    assert reason == "The candidate did not run: out of memory."


@pytest.mark.parametrize(
    ("change", "explains"),
    [
        (Change("drafting.method", "none", "mtp"), True),
        (Change("drafting.draft_tokens", 7, 8), True),
        (Change("serving.dtype", "bfloat16", "float16"), True),
        (Change("serving.gdn_decode_kernel", "auto", "triton"), True),
        (Change("serving.gdn_prefill_backend", "auto", "triton"), False),
        (Change("serving.gdn_state_dtype", "auto", "bfloat16"), False),
        (Change("serving.max_sequences", 4, 16), False),
        (Change("quantization.method", "none", "awq"), False),
    ],
)
def test_what_verifies_drafts_is_explained_by_what_decides_it_alone(change: Change, explains: bool) -> None:
    assert explained("gdn.decode", [change]) is explains
