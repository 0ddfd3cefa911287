"""The confounder guard: kernels, clocks, what one arm alone tells, and what was recorded on an H200."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.judge.confounding import CLOCK_TOLERANCE, Difference, clauses, differences, sentence
from agent.judge.consequences import CONSEQUENCES, explained
from agent.judge.gates import check, clock_tolerance, confounders
from agent.judge.launch_interval import LaunchIntervalJudge
from experiments.measurement.evidence import Arm, Evidence, LaunchRecord, Metric, NoiseProfile, Stage
from experiments.measurement.judging import Outcome, Stop
from experiments.measurement.plan import Prediction, StoppingPlan
from experiments.space.configuration import Change
from experiments.space.loading import load_space
from tests.recorded.vllm_kernels import launch

NOISE = NoiseProfile("target", Metric.TPOT_MS, 4, 3, 0.01)
PLAN = StoppingPlan(prediction=Prediction(log_ratio_mean=-0.02, log_ratio_sd=0.1))
GROUPS = Change("quantization.group_size", 32, 128)
KERNEL = Change("serving.linear_kernel", "machete", "marlin")
THREADS = Change("serving.threads", 2, 1)


def record(
    arm: Arm, resolved: Mapping[str, Any], index: int = 0, environment: Mapping[str, Any] | None = None
) -> LaunchRecord:
    return LaunchRecord(arm, index, Stage.QUICK, arm.value, resolved, environment or {}, 1.0, ())


def differing(one: Mapping[str, Any], other: Mapping[str, Any], *changes: Change) -> list[str]:
    found = differences([record(Arm.CONTROL, one)], [record(Arm.CANDIDATE, other)], changes)
    return [each.sentence() for each in found]


def trap(change: Change, control: str, candidate: str) -> Evidence:
    return Evidence((launch(Arm.CONTROL, control), launch(Arm.CANDIDATE, candidate)), NOISE, (change,))


def test_groups_of_32_on_marlin_against_groups_of_128_on_machete_are_confounded_and_the_kernel_is_named() -> (
    None
):
    found = LaunchIntervalJudge().verdict(PLAN, trap(GROUPS, "w4-g32", "w4-g128"))
    assert found.outcome is Outcome.CONFOUNDED
    assert (
        "linear_kernel is MarlinLinearKernel in the control, MacheteLinearKernel in the candidate"
        in found.reason
    )
    assert "quantization.group_size 32 → 128" in found.reason
    assert isinstance(LaunchIntervalJudge().next_step(PLAN, trap(GROUPS, "w4-g32", "w4-g128")), Stop)


def test_the_same_groups_on_one_kernel_are_no_confounded_test() -> None:
    assert check(trap(GROUPS, "w4-g32", "w4-g128-marlin"), Metric.TPOT_MS) is None


def test_a_claim_about_the_kernel_itself_explains_the_kernel() -> None:
    assert check(trap(KERNEL, "w4-g128", "w4-g128-marlin"), Metric.TPOT_MS) is None


def test_what_the_changed_knob_pins_by_the_spaces_word_is_explained_whatever_the_knob_is_called() -> None:
    backend = Change("serving.matmul", "a", "b")
    evidence = trap(backend, "w4-g128", "w4-g128-marlin")
    assert confounders(evidence, Metric.TPOT_MS)
    pinned = Evidence(evidence.launches, NOISE, (backend,), pinned_keys=("linear_kernel",))
    assert confounders(pinned, Metric.TPOT_MS) == ()


@pytest.mark.parametrize(
    ("key", "change", "expected"),
    [
        ("linear_kernel", Change("quantization.method", "none", "awq"), True),
        ("kernels.linear", Change("quantization.method", "awq", "none"), True),
        ("linear_kernel", Change("quantization.method", "rtn", "awq"), False),
        ("linear_kernel", Change("quantization.bits", 4, 8), False),
        ("linear_kernel", Change("quantization.group_size", None, 32), False),
        ("attention_kernel", Change("quantization.method", "none", "awq"), False),
        ("gdn_kernel", Change("drafting.method", "none", "mtp"), True),
        ("linear_kernel", Change("drafting.method", "none", "mtp"), False),
        ("max_num_batched_tokens", Change("drafting.draft_tokens", 1, 2), False),
        ("attention_kernel", Change("serving.linear_kernel", "a", "b"), False),
        ("attention.backend", Change("serving.compile", "off", "default"), False),
        ("attention_backend", Change("serving.compile", "off", "default"), False),
        ("linear_kernel", Change("serving.compile", "off", "default"), False),
        ("linear_kernel", Change("serving.dtype", "float32", "bfloat16"), False),
        ("experts_kernel", Change("serving.weight_dtype", "stored", "fp8"), True),
        ("experts_kernel", Change("serving.linear_backend", "marlin", "humming"), False),
        ("experts_kernel", Change("serving.dtype", "float16", "bfloat16"), False),
        ("experts_kernel", Change("quantization.method", "none", "awq"), True),
        ("experts_kernel", Change("quantization.symmetric", True, False), False),
        ("experts_kernel.class", Change("serving.moe_backend", "auto", "marlin"), True),
        ("experts_kernel.backend", Change("serving.weight_dtype", "stored", "fp8"), True),
        ("loaded.bytes", Change("serving.moe_backend", "auto", "marlin"), True),
        ("linear_kernel", Change("serving.moe_backend", "auto", "marlin"), False),
        ("drafter_attention_kernel", Change("drafting.drafter", "packaged", "./mine"), True),
        ("gdn_kernel", Change("drafting.ngram_tokens", 2, 3), False),
    ],
)
def test_a_change_explains_a_kernel_only_where_it_cannot_leave_it_alone(
    key: str, change: Change, expected: bool
) -> None:
    assert explained(key, [change]) is expected


ON = Change("quantization.method", "none", "awq")
OTHER = Change("quantization.method", "rtn", "awq")
CORPUS = Change("quantization.corpus", "raw", "instruct")
DRAFTS = Change("drafting.method", "none", "mtp")
LONGER = Change("drafting.draft_tokens", 1, 2)
FEWER = Change("pruning.method", "none", "depth")


@pytest.mark.parametrize(
    ("key", "change", "expected"),
    [
        ("dtype", GROUPS, False),
        ("kv_cache_dtype", GROUPS, False),
        ("quantization.bits", CORPUS, False),
        ("quantization.group_size", CORPUS, False),
        ("state_dtype", CORPUS, False),
        ("quantization.method", DRAFTS, False),
        ("drafting.method", FEWER, False),
        ("layers", LONGER, False),
        ("bits", GROUPS, False),
        ("weights.bytes_by_part.mlp", CORPUS, False),
        ("weights.stored", CORPUS, False),
        ("drafting.method", LONGER, False),
        ("drafting.drafter.parameters", FEWER, False),
        ("drafting.drafter.layers", FEWER, False),
        ("parameters", DRAFTS, False),
        ("parameters", GROUPS, False),
        ("kv_cache_dtype", ON, False),
        ("dtype", OTHER, False),
        ("layers_norm_kernel", GROUPS, False),
        ("dtype", ON, True),
        ("weights.latency_representative", ON, True),
        ("latency_reason", ON, True),
        ("quantization.group_size", GROUPS, True),
        ("quantization.corpus", CORPUS, True),
        ("checkpoint", CORPUS, True),
        ("drafting.drafter.target_layers", FEWER, True),
        ("drafting.drafter.weight_bytes", Change("serving.dtype", "float32", "bfloat16"), True),
        ("drafting.verify.mode", Change("serving.compile", "off", "default"), True),
        ("weights.step_weight_bytes", FEWER, True),
        ("parameters", Change("quantization.lm_head", "high", "quantized"), True),
        ("async_scheduling", Change("drafting.method", "none", "ngram"), True),
        ("async_scheduling", Change("drafting.method", "ngram", "mtp"), True),
        ("async_scheduling", DRAFTS, False),
        ("max_graph_tokens", Change("serving.max_sequences", 4, 16), True),
        ("max_graph_tokens", Change("serving.max_batch_tokens", "auto", 2048), True),
        ("max_graph_tokens", Change("serving.graph_mode", "auto", "eager"), True),
        ("max_graph_tokens", Change("drafting.method", "none", "mtp"), True),
        ("max_graph_tokens", Change("drafting.draft_tokens", 1, 3), True),
        ("max_graph_tokens", Change("serving.kv_cache_dtype", "auto", "fp8_e4m3"), False),
        ("max_graph_tokens", GROUPS, False),
        ("max_sequences", Change("serving.max_graph_tokens", "auto", 512), False),
        ("graph_mode", Change("serving.max_graph_tokens", "auto", 512), True),
        ("async_scheduling", Change("drafting.ngram_tokens", 2, 3), False),
        ("max_num_seqs_scheduling", Change("drafting.method", "none", "ngram"), False),
    ],
)
def test_a_word_counts_for_the_knob_that_it_belongs_to_and_for_no_neighbour(
    key: str, change: Change, expected: bool
) -> None:
    assert explained(key, [change]) is expected


@pytest.mark.parametrize("space", ["reference", "levers", "vllm"])
def test_every_knob_of_the_packaged_spaces_has_its_consequences(space: str) -> None:
    assert {knob.name for knob in load_space(space).knobs} <= CONSEQUENCES.keys()


def test_a_key_that_one_arm_alone_tells_is_a_difference() -> None:
    assert differing({"a": 1}, {"a": 1, "kernel": "x"}) == [
        "kernel is not told in the control, x in the candidate"
    ]
    assert differing({"a": 1, "kernel": "x"}, {"a": 1}) == [
        "kernel is x in the control, not told in the candidate"
    ]


def test_what_neither_arm_knows_is_no_difference() -> None:
    assert differing({"a": None}, {}) == []
    assert differing({}, {}) == []


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (2, 2.0, True),
        (1, True, False),
        ("1", 1, False),
        ([1, 2], [1, 2], True),
        ([1, 2], [2, 1], False),
        ([{"a": 1}], [{"a": 1}], True),
        (float("nan"), float("nan"), True),
        ({1, 2}, {2, 1}, True),
        (b"x", b"x", True),
        (b"x", b"y", False),
        (object, int, False),
    ],
)
def test_values_of_any_type_are_compared_with_their_type(one: Any, other: Any, alike: bool) -> None:
    assert (differing({"a": one}, {"a": other}) == []) is alike


def test_a_nested_key_that_is_a_value_in_the_other_arm_is_told_without_a_fault() -> None:
    assert differing({"a": {"b": 1}}, {"a": 1}) == [
        "a is not told in the control, 1 in the candidate",
        "a.b is 1 in the control, not told in the candidate",
    ]


def test_an_arm_that_tells_nothing_of_what_ran_is_confounded_and_named() -> None:
    silent = Evidence((launch(Arm.CONTROL, "w4-g32"), record(Arm.CANDIDATE, {})), NOISE, (GROUPS,))
    found = check(silent, Metric.TPOT_MS)
    assert found is not None
    assert found.outcome is Outcome.CONFOUNDED
    assert "candidate launch 0 told nothing" in found.reason


def test_arms_that_both_tell_nothing_can_not_be_compared_and_pass() -> None:
    evidence = Evidence((record(Arm.CONTROL, {}), record(Arm.CANDIDATE, {})), NOISE, (GROUPS,))
    assert check(evidence, Metric.TPOT_MS) is None


@pytest.mark.parametrize("key", ["package.version", "inductor_version", "versions.drafter", "versions.torch"])
def test_another_version_is_neither_history_nor_a_consequence_of_any_change(key: str) -> None:
    changes = [
        Change(knob, "none" if knob.endswith("method") else 1, "awq" if knob.endswith("method") else 2)
        for knob in CONSEQUENCES
    ]
    section, _, name = key.partition(".")
    one, other = ({section: {name: number} if name else number} for number in ("0.26", "0.27"))
    assert differing(one, other, *changes) == [f"{key} is 0.26 in the control, 0.27 in the candidate"]


@given(st.floats(200, 3000), st.floats(0.5, 2))
def test_clocks_are_compared_with_their_tolerance(mhz: float, factor: float) -> None:
    apart = max(factor, 1 / factor) - 1
    found = differing({"gpu": {"sm_mhz": mhz}}, {"gpu": {"sm_mhz": mhz * factor}}, THREADS)
    if abs(apart - CLOCK_TOLERANCE) > 1e-6:
        assert bool(found) is (apart > CLOCK_TOLERANCE)


def test_the_clocks_of_the_blocks_environment_are_compared_too() -> None:
    def at(mhz: int) -> dict[str, Any]:
        return {"blocks": [{"before": {"gpu": {"sm_mhz": mhz}}, "after": {"gpu": None}}, {"before": "?"}, 3]}

    control = [record(Arm.CONTROL, {"a": 1}, environment=at(1980))]
    slow = [record(Arm.CANDIDATE, {"a": 1}, environment=at(1755))]
    same = [record(Arm.CANDIDATE, {"a": 1}, environment=at(1965))]
    assert [each.key for each in differences(control, slow, [THREADS])] == ["gpu.sm_mhz"]
    assert differences(control, same, [THREADS]) == ()


@pytest.mark.parametrize(
    ("min_effect", "confounded"), [(0.03, False), (0.026, False), (0.02, True), (0.01, True)]
)
def test_no_clock_may_make_the_gain_that_is_asked_for_alone(min_effect: float, confounded: bool) -> None:
    """2.5 % more clock is no cause of a gain of 3 %, and may be the whole of one of 1 %."""
    told = {"threads": 2, "gpu": {"sm_mhz": 1600}}
    faster = {"threads": 1, "gpu": {"sm_mhz": 1640}}
    launches = (record(Arm.CONTROL, told), record(Arm.CANDIDATE, faster))
    evidence = Evidence(launches, NOISE, (THREADS,))
    plan = PLAN.model_copy(update={"min_effect": min_effect})
    verdict = LaunchIntervalJudge().verdict(plan, evidence)
    assert (verdict.outcome is Outcome.CONFOUNDED) is confounded
    assert ("gpu.sm_mhz is 1600 in the control, 1640 in the candidate" in verdict.reason) is confounded
    assert bool(confounders(evidence, plan.metric, clock_tolerance(plan))) is confounded


def arm_of(arm: Arm, *told: Mapping[str, Any]) -> list[LaunchRecord]:
    return [record(arm, {"threads": 2, **each}, index) for index, each in enumerate(told)]


A, B = {"kernel": "a"}, {"kernel": "b"}


def test_what_varies_from_launch_to_launch_must_vary_as_often_in_both_arms() -> None:
    assert differences(arm_of(Arm.CONTROL, A, A, B), arm_of(Arm.CANDIDATE, B, A, A), [THREADS]) == ()
    [found] = differences(arm_of(Arm.CONTROL, A, A, B), arm_of(Arm.CANDIDATE, A, B, B), [THREADS])
    assert found.sentence() == (
        "kernel is a (2 of 3 launches) or b (1 of 3 launches) in the control, "
        "a (1 of 3 launches) or b (2 of 3 launches) in the candidate"
    )


def test_a_key_that_some_launches_of_one_arm_do_not_tell_is_a_difference() -> None:
    [found] = differences(arm_of(Arm.CONTROL, A, A), arm_of(Arm.CANDIDATE, A, {}), [THREADS])
    assert (
        found.sentence()
        == "kernel is a (2 of 2 launches) in the control, a (1 of 2 launches) in the candidate"
    )


def test_a_launch_that_was_measured_further_counts_once() -> None:
    twice = [*arm_of(Arm.CANDIDATE, A, B), record(Arm.CANDIDATE, {"threads": 2, **A}, 0)]
    assert differences(arm_of(Arm.CONTROL, A, B), twice, [THREADS]) == ()


def test_clocks_are_those_of_most_launches_however_often_the_others_were_seen() -> None:
    fast, slow = ({"gpu": {"sm_mhz": mhz}} for mhz in (1980, 1755))
    mostly_fast, mostly_slow = (fast, fast, fast, slow), (slow, slow, slow, fast)
    [found] = differences(arm_of(Arm.CONTROL, *mostly_slow), arm_of(Arm.CANDIDATE, *mostly_fast), [THREADS])
    assert found.sentence() == "gpu.sm_mhz is 1755 in the control, 1980 in the candidate"
    always_fast = (fast,) * 4
    assert (
        differences(arm_of(Arm.CONTROL, *mostly_fast), arm_of(Arm.CANDIDATE, *always_fast), [THREADS]) == ()
    )


def test_what_follows_from_the_kernel_is_told_with_it_and_alone_where_no_kernel_differs() -> None:
    kernel = Difference("linear_kernel", "Marlin", "Humming")
    types = Difference("weights.dtype", "bfloat16, int32, int64", "bfloat16, int32")
    loaded, drafter = (
        Difference("weights.loaded_bytes", "2", "1"),
        Difference("drafter.weights.dtype", "a", "b"),
    )
    layers = Difference("layers", "24", "22")
    with_it = "linear_kernel is Marlin in the control, Humming in the candidate, and with it weights.dtype"
    assert clauses((kernel, types)) == [with_it]
    assert clauses((layers, kernel, loaded, types, drafter)) == [
        layers.sentence(),
        f"{kernel.sentence()}, and with it weights.loaded_bytes, weights.dtype",
        drafter.sentence(),
    ]
    assert clauses((types, layers)) == [types.sentence(), layers.sentence()]
    assert sentence((kernel, types), (GROUPS,)).endswith(f": {with_it}.")


def test_more_differences_than_a_sentence_holds_are_counted() -> None:
    keys = dict.fromkeys("abcde", 1)
    evidence = Evidence((record(Arm.CONTROL, keys), record(Arm.CANDIDATE, {"z": 1})), NOISE, (GROUPS,))
    found = check(evidence, Metric.TPOT_MS)
    assert found is not None
    assert "; and 3 more." in found.reason


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(min_size=1, max_size=6), JSONS, max_size=4))
def test_an_arm_never_differs_from_itself(resolved: dict[str, Any]) -> None:
    assert differing(resolved, resolved) == []
