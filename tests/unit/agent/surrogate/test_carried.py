"""What other campaigns measured: it moves beliefs here, and never makes them sure."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from agent.proposers.port import Trial
from agent.surrogate.beliefs import Beliefs
from agent.surrogate.carried import Carried
from agent.surrogate.feasibility import FAILED_BEFORE
from experiments.measurement.judging import Outcome
from experiments.measurement.plan import Margins, Prediction
from experiments.space.configuration import Configuration
from tests.unit.agent.campaigns import BASELINE, COMPILED, PHYSICS, SPACE, trial
from tests.unit.agent.proposers import test_other_kernels

VLLM, H200 = test_other_kernels.SPACE, test_other_kernels.PHYSICS
on = test_other_kernels.on


def trial_of(candidate: Configuration, effect_log: float) -> Trial:
    """A trial against the kernel that the engine chooses by itself."""
    made = trial(COMPILED, Outcome.REFUTED, math.expm1(effect_log), se=0.01)
    return replace(made, control=on("auto"), candidate=candidate, lever="kernel")


FASTER = trial(COMPILED, Outcome.SUPPORTED, -0.6, se=0.01)


def carried(*trials: Trial, scope: str = "C-1", model: bool = True, workload: bool = True) -> list[Carried]:
    return [Carried(each, scope, same_model=model, same_workload=workload) for each in trials]


def beliefs(others: list[Carried], own: tuple[Trial, ...] = ()) -> Beliefs:
    return Beliefs.learn(SPACE, PHYSICS, own, Margins(), carried=others)


def compiled(others: list[Carried], own: tuple[Trial, ...] = ()) -> Prediction:
    return beliefs(others, own).predict(BASELINE, COMPILED)


def test_what_another_campaign_measured_moves_beliefs_here_but_is_not_as_sure_as_ones_own() -> None:
    none, there, here = compiled([]), compiled(carried(FASTER)), compiled([], (FASTER,))
    assert here.log_ratio_mean < there.log_ratio_mean < none.log_ratio_mean
    assert here.log_ratio_sd < there.log_ratio_sd < none.log_ratio_sd


def test_another_model_or_workload_says_less_and_both_say_least() -> None:
    moved = [
        compiled([]).log_ratio_mean - compiled(carried(FASTER, model=model, workload=workload)).log_ratio_mean
        for model, workload in ((True, True), (True, False), (False, True), (False, False))
    ]
    assert moved[0] > moved[1] == pytest.approx(moved[2])
    assert moved[2] > moved[3] > 0


def test_other_hardware_whose_step_was_not_profiled_says_something_all_the_same() -> None:
    (there,) = carried(trial_of(on("marlin"), math.log(1.1)))
    there = replace(there, tpot_ms=H200.tpot_ms, bandwidth_bytes_per_s=H200.bandwidth_bytes_per_s)
    assert H200.profile, "here it was"
    unprofiled, same = (
        Beliefs.learn(VLLM, H200, (), Margins(), judges_quality=False, carried=[each])
        .predict(on("auto"), on("marlin"))
        .log_ratio_mean
        for each in (replace(there, same_hardware=False, profile=()), there)
    )
    assert 0.01 < unprofiled < same


def test_claims_that_physics_expects_the_other_way_round_are_hardly_believed() -> None:
    expected = compiled([]).log_ratio_mean
    assert expected < -0.3
    weights = [
        beliefs(carried(*each)).latency.belief.carried_weight
        for each in ([replace(FASTER, effect_log=sign * expected)] * 3 for sign in (1, -1))
    ]
    assert weights[1] < weights[0] / 20


def test_however_much_one_campaign_measured_it_may_come_out_otherwise_here() -> None:
    one = [replace(FASTER, experiment_id=number) for number in range(50)]
    often, once = beliefs(carried(*one)), beliefs(carried(FASTER))
    spreads = [
        each.predict(BASELINE, COMPILED).log_ratio_sd / each.latency.belief.scale for each in (often, once)
    ]
    assert spreads[0] > spreads[1] / 2


def test_two_campaigns_that_agree_are_believed_more_than_one() -> None:
    both = [*carried(FASTER), *carried(FASTER, scope="C-2")]
    one = [*carried(FASTER), *carried(FASTER)]
    spreads = [
        each.predict(BASELINE, COMPILED).log_ratio_sd / each.latency.belief.scale
        for each in (beliefs(both), beliefs(one))
    ]
    assert spreads[0] < spreads[1]


def test_ones_own_outcome_overrules_what_was_found_elsewhere() -> None:
    slower = trial(COMPILED, Outcome.REFUTED, 0.1, se=0.01)
    there, here = compiled(carried(FASTER)).log_ratio_mean, math.log(1.1)
    assert abs(compiled(carried(FASTER), (slower,)).log_ratio_mean - here) < abs(there - here) / 5


def test_what_slowed_a_busy_server_says_less_of_a_step_alone() -> None:
    """Half of a token there is beside the profiled step, where a kernel may lose apart from its products."""
    slower = trial_of(on("marlin"), math.log(1.1))
    effects = [
        Beliefs.learn(
            VLLM,
            H200,
            (),
            Margins(),
            judges_quality=False,
            carried=[Carried(slower, "C-1", same_model=True, same_workload=False, tpot_ms=tpot_ms)],
        )
        .predict(on("auto"), on("marlin"))
        .log_ratio_mean
        for tpot_ms in (H200.tpot_ms, 2 * H200.tpot_ms)
    ]
    assert 0 < effects[1] < effects[0] / 2


def test_what_failed_elsewhere_is_doubted_less_than_what_failed_here_and_may_be_tried() -> None:
    failed = trial(COMPILED, Outcome.INFEASIBLE, None, failure="crashed")
    elsewhere = beliefs(carried(failed)).p_feasible(COMPILED)
    assert beliefs([], (failed,)).p_feasible(COMPILED) == FAILED_BEFORE
    assert FAILED_BEFORE < elsewhere < beliefs([]).p_feasible(COMPILED)


STEPS = "serving.max_batch_tokens"


def of_steps(tokens: int, effect: float, **ground: object) -> Carried:
    candidate = VLLM.with_change(on("auto"), {STEPS: tokens})
    made = replace(trial_of(candidate, effect), lever="chunking")
    return replace(Carried(made, "C-1", same_model=True, same_workload=True), **ground)  # type: ignore[arg-type]


def steps_believed(others: list[Carried]) -> Prediction:
    found = Beliefs.learn(VLLM, H200, (), Margins(), judges_quality=False, carried=others)
    return found.predict(on("auto"), VLLM.with_change(on("auto"), {STEPS: 2048}))


@pytest.mark.parametrize(
    "ground", [{"same_model": False}, {"same_workload": False}, {"same_hardware": False, "tpot_ms": 9.0}]
)
def test_what_other_requests_or_another_card_made_of_tokens_of_a_step_is_held_against_nothing_here(
    ground: dict[str, object],
) -> None:
    """There auto is another number, or the requests ask for more of a step: what came out is of that loop."""
    assert steps_believed([of_steps(2048, 0.04, **ground)]) == steps_believed([])


def test_on_the_same_ground_it_is_believed_and_so_are_other_levers_of_other_grounds() -> None:
    assert steps_believed([of_steps(2048, 0.04)]).log_ratio_mean > 0.005
    elsewhere = replace(
        Carried(trial_of(on("marlin"), 0.2), "C-1", same_model=True, same_workload=False), tpot_ms=5.0
    )
    marlin = on("marlin")
    found = Beliefs.learn(VLLM, H200, (), Margins(), judges_quality=False, carried=[elsewhere])
    plain = Beliefs.learn(VLLM, H200, (), Margins(), judges_quality=False)
    assert found.predict(on("auto"), marlin) != plain.predict(on("auto"), marlin)
