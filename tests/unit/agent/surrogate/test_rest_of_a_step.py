"""What is believed of a best in 8 bits, and of what leaves it: kernels that it brought along, as for making
what it multiplies weights with as narrow, are known of it and stay with it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.proposers.port import Trial
from agent.surrogate.beliefs import Beliefs
from agent.surrogate.composed import composed
from agent.surrogate.kernel_parts import EXPERTS, PRODUCTS, REST, KernelParts
from agent.surrogate.levers import LeverView
from agent.surrogate.physics import Physics
from agent.surrogate.residual import LatencyBelief
from agent.surrogate.timed_kernels import TimedKernels
from configs.models import load_model_profile
from experiments.engines.kernel_timings import KERNEL, KernelTiming, KernelTimings, PartTiming
from experiments.engines.port import PartTime
from experiments.measurement.judging import Outcome
from experiments.measurement.plan import Margins
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.loading import load_space

SPACE = load_space("vllm")
BASELINE = SPACE.configuration({})
NARROW = SPACE.configuration({"serving.weight_dtype": "fp8"})
W4 = SPACE.configuration({"quantization.method": "awq", "quantization.group_size": 128})
W4_NAMED = SPACE.with_change(W4, {"quantization.lm_head": "quantized", KERNEL: "humming"})
VIEW = LeverView.of(SPACE, BASELINE)
MIXTURE = load_model_profile("qwen3.5-35b-a3b")

Step = Sequence[tuple[str, float, int, int]]
"""Kind, milliseconds, bytes of weights and of caches."""

MADE_UP: Step = (
    ("gemm", 1.6, 3_000_000_000, 0),
    ("experts", 0.8, 2_000_000_000, 0),
    ("lm_head", 0.3, 1_000_000_000, 0),
    ("gdn_state", 0.2, 0, 100_000_000),
    ("small", 0.9, 0, 0),
    ("outside", 0.2, 0, 0),
)
OF_8_BITS = {"gemm": 0.9, "experts": 0.6, "small": 1.3, "other": 0.1}
"""Milliseconds of what takes another time then."""

MEASURED: Step = (
    ("gemm", 1.7402, 2_852_000_000, 0),
    ("small", 0.7969, 354_000, 0),
    ("experts", 0.7175, 2_013_000_000, 0),
    ("lm_head", 0.2459, 1_017_000_000, 0),
    ("outside", 0.1579, 0, 0),
    ("in_proj_ba", 0.1545, 8_000_000, 0),
    ("gdn_state", 0.1439, 6_000, 126_000_000),
    ("attention", 0.1334, 0, 11_000_000),
    ("conv1d", 0.0759, 2_000_000, 3_000_000),
    ("sampling", 0.0385, 0, 0),
)
"""The step of Qwen3.5-35B-A3B's shape on an H200 with vLLM 0.33, as a campaign on 2026-11-30 profiled its
baseline; a token took 4.228 ms."""

MEASURED_OF_8_BITS = {
    "gemm": 0.9378,
    "small": 1.1564,
    "other": 0.0989,
    "experts": 0.5781,
    "lm_head": 0.2414,
    "outside": 0.2804,
    "in_proj_ba": 0.1217,
    "gdn_state": 0.1446,
    "attention": 0.1316,
    "conv1d": 0.0745,
    "sampling": 0.0401,
}
"""The same of its first test, which took a token's time by this log:"""

MEASURED_LOG = -0.1032

ALONE_US = {
    "gate_up_proj": (40, 12.65, 11.20, 6.28),
    "down_proj": (40, 3.74, 5.07, 3.67),
    "in_proj_qkvz": (30, 15.16, 11.44, 11.39),
    "out_proj": (30, 8.96, 15.45, 8.20),
    "qkv_proj": (10, 11.71, 11.16, 11.06),
    "o_proj": (10, 8.67, 15.43, 8.17),
    "lm_head": (1, 243.76, 104.37, None),
}
"""How many of each product it has, and microseconds of one alone there: in 16 bits, in 4 by the engine's
choice, and in 4 by another kernel, of whose head a limit cut the timing off."""


def parts(step: Step, times: Mapping[str, float] | None = None) -> tuple[PartTime, ...]:
    """A step, with other times by kind."""
    told = dict(times or {})
    found = [
        PartTime(kind, kind, told.pop(kind, ms), read, cache_bytes=cached) for kind, ms, read, cached in step
    ]
    return (*found, *(PartTime(kind, kind, ms, 0) for kind, ms in told.items()))


def total_ms(step: Sequence[PartTime]) -> float:
    return math.fsum(each.time_ms for each in step)


def timed_alone() -> TimedKernels:
    def timed(place: int, knobs: Mapping[str, KnobValue]) -> KernelTiming:
        told = ((part, count, us[place]) for part, (count, *us) in ALONE_US.items())
        return KernelTiming(
            knobs, tuple(PartTiming(part, count, us=us, kernel=f"K{place}") for part, count, us in told)
        )

    formats = {
        "quantization.bits": 4,
        "quantization.group_size": 128,
        "quantization.symmetric": W4["quantization.symmetric"],
    }
    packed = (timed(1, {**formats, KERNEL: "auto"}), timed(2, {**formats, KERNEL: "humming"}))
    return TimedKernels(KernelTimings(1, "", timed(0, {}), packed))


def physics(step: Step = MADE_UP, tpot_ms: float | None = None, bandwidth: float = 4e12) -> Physics:
    profile = parts(step)
    return Physics(
        BASELINE,
        total_ms(profile) if tpot_ms is None else tpot_ms,
        profile,
        bandwidth_bytes_per_s=bandwidth,
        serves_packed=True,
        shape=MIXTURE,
    )


def judged(step: Step = MADE_UP, times: Mapping[str, float] | None = None) -> Trial:
    """The test of 8-bit weights, which took as long as its profiled step says."""
    profile = parts(step, OF_8_BITS if times is None else times)
    effect = math.log(total_ms(profile) / total_ms(parts(step)))
    return Trial(
        hypothesis_id=1,
        experiment_id=1,
        control=BASELINE,
        candidate=NARROW,
        lever="weight_dtype",
        outcome=Outcome.SUPPORTED,
        effect_log=effect,
        effect_se_log=0.002,
        bits_ratio_log=None,
        task_points=None,
        cost_s=200.0,
        profile=profile,
    )


def learnt(physics: Physics, *trials: Trial) -> LatencyBelief:
    return Beliefs.learn(SPACE, physics, trials, Margins(), judges_quality=False).latency


def mean(belief: LatencyBelief, control: Configuration, candidate: Configuration) -> float:
    return belief.predict([(control, candidate)])[0].log_ratio_mean


def test_all_kinds_that_no_lever_acts_on_by_itself_are_the_rest() -> None:
    found = KernelParts.of(parts(MEASURED), 4e12)
    assert found is not None
    assert found.time_ms[REST] == pytest.approx(0.7969 + 0.1545 + 0.0759 + 0.0385)
    assert math.fsum(found.time_ms.values()) == pytest.approx(found.step_ms)


def test_a_best_is_believed_to_take_what_it_took_though_it_saved_of_products_what_it_lost_elsewhere() -> None:
    test = judged()
    assert test.effect_log is not None
    belief = learnt(physics(), test)
    assert mean(belief, BASELINE, NARROW) == pytest.approx(test.effect_log, abs=0.01)


def test_what_a_change_brought_along_does_not_stay_with_what_undoes_it() -> None:
    test = judged()
    assert test.effect_log is not None
    belief = learnt(physics(), test)
    unchanged = mean(learnt(physics()), BASELINE, W4)
    assert mean(belief, BASELINE, W4) == pytest.approx(unchanged, abs=1e-9), "no unknown is shared"
    assert mean(belief, NARROW, W4) == pytest.approx(unchanged - test.effect_log, abs=0.01)


@given(st.floats(0.5, 2.5))
def test_the_longer_what_it_brought_along_takes_the_more_is_won_by_leaving_it(small_ms: float) -> None:
    less, more = (
        mean(learnt(physics(), judged(times={**OF_8_BITS, "small": ms})), NARROW, W4)
        for ms in (small_ms, small_ms + 0.2)
    )
    assert more < less


def test_what_products_and_the_rest_took_are_outcomes_by_themselves() -> None:
    belief = learnt(physics(), replace(judged(), effect_log=None))
    [alone] = [each.belief for each in belief.belief.members]
    moved = dict(zip(alone.names, alone.mean, strict=True))
    assert moved[f"weight_dtype of {REST}"] > 1 > 0 > moved[f"weight_dtype of {PRODUCTS}"]


@given(st.dictionaries(st.sampled_from([PRODUCTS, EXPERTS, REST]), st.floats(-3, 3)))
def test_a_sum_of_parts_is_exact_where_profiles_told_them_to_be(told: dict[str, float]) -> None:
    here, settings = physics(), VIEW.settings(NARROW)
    near = {f"weight_dtype of {part}": value for part, value in told.items()}
    expected, features = composed(here, settings, (), near)
    effects = here.expect("weight_dtype", settings["weight_dtype"]).parts
    taken = math.fsum(
        share * math.exp(effects[part].mean_log + 0.3 * told.get(part, 0.0) if part in effects else 0.0)
        for part, share in here.parts.items()
    )
    found = expected + math.fsum(value * near.get(name, 0.0) for name, value in features.items())
    assert found == pytest.approx(math.log(taken))


def test_without_a_profile_of_a_candidate_nothing_is_linear_elsewhere() -> None:
    here = physics()
    belief = learnt(here, replace(judged(), profile=()))
    assert not belief.near
    settings = VIEW.settings(NARROW)
    assert belief.contrast(BASELINE, NARROW)[0] == composed(here, settings, ())[0]


def test_a_trial_with_a_profile_of_its_step_is_not_learnt_alone() -> None:
    with pytest.raises(ValueError, match="profiles"):
        learnt(physics()).after(judged())


def test_an_h200_s_best_in_8_bits_was_left_for_4_bits_as_its_profile_says() -> None:
    """Before, the best was believed at 78 % of the baseline, where it took 90 %: 4 bits were expected to cost
    3 % and were not tested. Tested since, they took 13.6 % less than the baseline, and 4.6
    less than 8 bits with five more values."""
    begun = replace(physics(MEASURED, 4.228, 4.262e12), timed=timed_alone(), one_at_once=True)
    first = replace(judged(MEASURED, MEASURED_OF_8_BITS), effect_log=MEASURED_LOG)
    belief = learnt(begun, first)
    assert mean(belief, BASELINE, W4_NAMED) == pytest.approx(-0.165, abs=0.01)
    assert mean(belief, BASELINE, NARROW) == pytest.approx(MEASURED_LOG, abs=0.03)
    assert -0.08 < mean(belief, NARROW, W4_NAMED) < -0.03
