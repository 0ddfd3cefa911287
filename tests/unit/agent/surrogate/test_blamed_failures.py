"""A failure that the engine put down to a setting is held against that setting, and against no other.

The failures are those of a campaign on an H200 (`docs/results/h200-campaign-17m.md`): E-0006 with eight
changes at once, E-0008 with ten, both for want of one kernel.
"""

from dataclasses import replace

import pytest

from agent.proposers.port import Trial
from agent.surrogate.carried import Carried
from agent.surrogate.feasibility import FAILED_BEFORE, FeasibilityBelief, Tried
from agent.surrogate.levers import LeverView
from experiments.engines.port import Blames
from experiments.measurement.judging import Outcome
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.loading import load_space

SPACE = load_space("vllm")
GDN, CACHE = "serving.gdn_prefill_backend", "serving.kv_cache_dtype"
BASELINE = SPACE.configuration({GDN: "triton"})
VIEW = LeverView.of(SPACE, BASELINE)
BEST = SPACE.with_change(BASELINE, {"quantization.method": "awq", "quantization.lm_head": "quantized"})

E_0006: dict[str, KnobValue] = {
    "quantization.group_size": 128,
    "serving.async_scheduling": "off",
    GDN: "flashinfer",
    "serving.gdn_state_dtype": "bfloat16",
    "serving.graph_mode": "full",
    CACHE: "fp8_e4m3",
    "serving.linear_backend": "marlin",
    "serving.max_model_len": 32768,
}
E_0008: dict[str, KnobValue] = {
    "quantization.group_size": 64,
    "quantization.keep": "edges",
    "quantization.symmetric": False,
    "serving.chunked_prefill": "off",
    "serving.dtype": "float16",
    GDN: "flashinfer",
    "serving.graph_mode": "full_and_piecewise",
    CACHE: "fp8_e5m2",
    "serving.linear_backend": "marlin",
    "serving.max_model_len": 32768,
}


def on_best(changes: dict[str, KnobValue]) -> Configuration:
    return SPACE.with_change(BEST, changes)


def without(changes: dict[str, KnobValue], knob: str) -> Configuration:
    return on_best({name: value for name, value in changes.items() if name != knob})


def trial(candidate: Configuration, blames: Blames | None = None, *, ran: bool = False) -> Trial:
    return Trial(
        hypothesis_id=1,
        experiment_id=1,
        control=BASELINE,
        candidate=candidate,
        lever="+".join(sorted(SPACE.levers_between(BASELINE, candidate))),
        outcome=Outcome.SUPPORTED if ran else Outcome.INFEASIBLE,
        effect_log=-0.1 if ran else None,
        effect_se_log=0.01 if ran else None,
        bits_ratio_log=None,
        task_points=None,
        cost_s=60.0,
        failure_kind=None if ran else "crashed",
        blames=blames or {},
    )


def belief(*trials: Trial, swept: tuple[Tried, ...] = ()) -> FeasibilityBelief:
    return FeasibilityBelief.learn(VIEW, [trial(BEST, ran=True), *trials], swept=swept)


def chance(known: FeasibilityBelief, candidate: Configuration) -> float:
    return known.probability([candidate])[0]


def test_one_failure_with_eight_changes_tells_which_of_them_to_leave() -> None:
    known = belief(trial(on_best(E_0006), {GDN: None}))
    assert chance(known, on_best(E_0008)) < 0.2
    assert chance(known, without(E_0008, GDN)) == pytest.approx(chance(belief(), without(E_0008, GDN)))
    assert chance(known, without(E_0008, GDN)) > 0.7
    assert chance(known, without(E_0006, GDN)) > 0.7


def test_without_blame_the_failure_is_spread_over_all_that_was_changed() -> None:
    known = belief(trial(on_best(E_0006)))
    assert chance(known, on_best(E_0008)) > 0.4
    assert chance(known, without(E_0008, GDN)) < chance(belief(), without(E_0008, GDN))


def test_blame_that_names_nothing_that_was_changed_is_as_none() -> None:
    failed = on_best(E_0006)
    named, unnamed = belief(trial(failed, {"serving.prefix_caching": None})), belief(trial(failed))
    asked = [on_best(E_0008), without(E_0008, GDN), without(E_0006, GDN), BEST]
    assert named.probability(asked) == unnamed.probability(asked)


def test_a_blamed_setting_that_ran_before_is_cleared_and_the_other_one_that_is_named_is_doubted() -> None:
    cached, halved = (
        SPACE.with_change(BASELINE, change) for change in ({CACHE: "fp8_e4m3"}, {"serving.dtype": "float16"})
    )
    both = SPACE.with_change(cached, {"serving.dtype": "float16"})
    failed = trial(both, {CACHE: None, "serving.dtype": None})
    known = belief(trial(cached, ran=True), failed)
    assert chance(known, halved) < 0.3 < 0.9 < chance(known, cached)
    cleared = belief(*(trial(each, ran=True) for each in (cached, halved) for _ in range(2)), failed)
    more = {"serving.max_sequences": 4}
    assert chance(cleared, SPACE.with_change(both, more)) < 0.6
    assert all(chance(cleared, SPACE.with_change(each, more)) > 0.9 for each in (cached, halved))


def test_the_value_behind_the_engines_own_choice_is_doubted_with_it() -> None:
    own = SPACE.with_change(BASELINE, {GDN: "auto"})
    there = SPACE.with_change(BASELINE, {GDN: "flashinfer"})
    told, untold = belief(trial(own, {GDN: "flashinfer"})), belief(trial(own, {GDN: None}))
    assert chance(told, own) == chance(untold, own) == FAILED_BEFORE
    assert chance(told, there) < 0.2 < 0.8 < chance(untold, there)


def test_what_the_engines_own_default_failed_of_in_the_sweep_is_known_before_the_first_test() -> None:
    naive = SPACE.configuration({})
    known = belief(swept=(Tried(naive, ran=False, blames={GDN: "flashinfer"}), Tried(BASELINE, ran=True)))
    assert chance(known, naive) == FAILED_BEFORE
    assert chance(known, on_best(E_0006)) < 0.2
    assert chance(known, without(E_0006, GDN)) > 0.7


def test_a_swept_configuration_that_lasted_clears_its_settings() -> None:
    other = SPACE.with_change(BASELINE, {"serving.graph_mode": "full"})
    known = belief(swept=(Tried(other, ran=True),))
    assert chance(known, other) > chance(belief(), other)


@pytest.mark.parametrize("elsewhere", [{"same_hardware": False}, {"same_versions": False}])
def test_blame_of_other_hardware_or_versions_counts_less_than_of_these(elsewhere: dict[str, bool]) -> None:
    failed = trial(on_best(E_0006), {GDN: None})
    told = Carried(failed, "C-9", same_model=True, same_workload=True)
    there = FeasibilityBelief.learn(VIEW, [], [replace(told, **elsewhere)])
    here = FeasibilityBelief.learn(VIEW, [failed])
    asked, nothing = on_best(E_0008), FeasibilityBelief.learn(VIEW, [])
    assert chance(here, asked) < chance(there, asked) < chance(nothing, asked)
    assert chance(there, without(E_0008, GDN)) == pytest.approx(chance(nothing, without(E_0008, GDN)))


def test_what_this_machine_could_not_run_for_another_model_it_is_not_expected_to_run_for_this_one() -> None:
    """The first test of a campaign was what had crashed in the one before, as in
    docs/results/transfer.md, where a failure of another campaign counted half."""
    failed = trial(on_best({GDN: "flashinfer"}), {})
    another = Carried(failed, "C-9", same_model=False, same_workload=True)
    ran = [
        replace(another, trial=trial(each, ran=True))
        for each in (BEST, on_best({"serving.graph_mode": "full"}))
    ]
    learnt = FeasibilityBelief.learn(VIEW, [], [*ran, another])
    other = FeasibilityBelief.learn(VIEW, [], [*ran, replace(another, same_hardware=False)])
    again = SPACE.with_change(BASELINE, {GDN: "flashinfer"})
    assert chance(learnt, again) < 0.4 < chance(other, again)
    of_memory = replace(another, trial=replace(failed, failure_kind="out_of_memory"))
    memory = FeasibilityBelief.learn(VIEW, [], [*ran, of_memory])
    assert chance(memory, again) == chance(other, again)


def test_one_failure_more_teaches_the_same_as_learning_all_anew() -> None:
    failed = trial(on_best(E_0006), {GDN: None})
    again = replace(failed, candidate=on_best(E_0008), blames={CACHE: None, GDN: None})
    asked = [on_best(E_0008), without(E_0008, GDN), BEST]
    assert belief(failed).after(again).probability(asked) == belief(failed, again).probability(asked)
