"""The order of steps, when they stop, and what the verdict then says."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from agent.judge.launch_interval import LaunchIntervalJudge
from agent.judge.sentences import percent
from configs.errors import UsageError
from experiments.measurement.evidence import Arm, Evidence, Metric, NoiseProfile, Stage
from experiments.measurement.judging import (
    Evaluate,
    JudgeVerdict,
    MeasureMore,
    MeasurePair,
    Outcome,
    Screen,
    Stop,
)
from experiments.measurement.plan import StoppingPlan
from tests.simulation.experiment import PLAN, PRUNED, SimulatedExperiment, Truth, run

JUDGE = LaunchIntervalJudge()
QUIET = Truth(launch_sd=0.002, disturbance_sd=0.001, request_sd=0.001, interruption_chance=0.0)
KNOWN = NoiseProfile("target", Metric.TPOT_MS, 9, 8, 0.002)
UNKNOWN = NoiseProfile("target", Metric.TPOT_MS, 1, 0, None)


def steps_of(
    truth: Truth, noise: NoiseProfile = KNOWN, plan: StoppingPlan = PLAN, seed: int = 1
) -> tuple[list[object], JudgeVerdict, SimulatedExperiment]:
    taken: list[object] = []
    verdict, experiment = run(JUDGE, plan, truth, np.random.default_rng(seed), noise, on_step=taken.append)
    return taken, verdict, experiment


def test_a_clear_gain_goes_from_one_quick_pair_over_quality_to_validation() -> None:
    taken, verdict, _ = steps_of(replace(QUIET, effect_log=math.log(0.8)))
    assert [type(step) for step in taken] == [MeasurePair, Evaluate, MeasurePair, MeasurePair, Stop]
    assert [step.stage for step in taken if isinstance(step, MeasurePair)] == [
        Stage.QUICK,
        Stage.VALIDATION,
        Stage.VALIDATION,
    ]
    assert verdict.outcome == Outcome.SUPPORTED


def test_a_supported_verdict_says_why_with_its_numbers() -> None:
    _, verdict, _ = steps_of(replace(QUIET, effect_log=math.log(0.8)))
    for part in (
        "TPOT changed by −",
        "95 % interval",
        "2 fresh validation pairs alone",
        "bits per byte",
        "tasks",
    ):
        assert part in verdict.reason
    assert verdict.effect_log == pytest.approx(math.log(0.8), abs=0.01)
    assert verdict.launches == 6
    assert verdict.samples == 2 * 2 * (PLAN.quick_blocks + 2 * PLAN.full_blocks)


@pytest.mark.parametrize("noise", [UNKNOWN, NoiseProfile("target", Metric.TPOT_MS, 9, 8, 0.0)])
def test_times_that_are_rounded_to_the_same_support_and_refute_nothing(noise: NoiseProfile) -> None:
    """A clock of whole milliseconds tells 6 and 5, and nothing of how launches vary."""
    exact = Truth(0.0, 0.0, drift_a_block=0.0, disturbance_sd=0.0, request_sd=0.0, interruption_chance=0.0)
    for effect in (math.log(5 / 6), 0.0):
        taken, verdict, experiment = steps_of(replace(exact, effect_log=effect), noise)
        assert verdict.outcome == Outcome.INCONCLUSIVE
        assert verdict.interval_high_log is None
        assert "more alike than measured times ever are" in verdict.reason
        assert experiment.pairs == PLAN.full_pairs
        assert isinstance(taken[-1], Stop)


def test_a_slower_candidate_stops_after_one_pair_when_the_noise_is_known() -> None:
    taken, verdict, _ = steps_of(replace(QUIET, effect_log=math.log(1.1)))
    assert [type(step) for step in taken] == [MeasurePair, Stop]
    assert verdict.outcome == Outcome.REFUTED
    assert "smaller than the 3 % asked for" in verdict.reason


def test_without_degrees_of_freedom_there_is_no_interval_and_another_pair_is_asked_for() -> None:
    taken, _, experiment = steps_of(replace(QUIET, effect_log=math.log(0.5)), UNKNOWN)
    assert [type(step) for step in taken[:2]] == [MeasurePair, MeasurePair]
    first = experiment.evidence()
    one_pair = replace(
        first, launches=tuple(r for r in first.launches if r.index == 0 and r.stage != "evaluate")
    )
    verdict = JUDGE.verdict(PLAN, one_pair)
    assert verdict.outcome == Outcome.INCONCLUSIVE
    assert verdict.interval_low_log is None
    assert "no interval" in verdict.reason


def test_more_blocks_are_measured_on_the_running_pair_when_launches_hardly_differ() -> None:
    truth = replace(QUIET, launch_sd=0.0, request_sd=0.05)
    noise = NoiseProfile("target", Metric.TPOT_MS, 9, 8, 0.001)
    taken, _, experiment = steps_of(truth, noise)
    assert taken[1] == MeasureMore(Stage.FULL, PLAN.full_blocks - PLAN.quick_blocks)
    assert experiment.pairs >= 1
    assert sum(isinstance(step, MeasureMore) for step in taken) == 1


def test_the_quality_of_changed_weights_is_looked_at_before_anything_is_timed() -> None:
    truth = replace(QUIET, effect_log=math.log(0.95), launch_sd=0.01, changes=PRUNED, bits_log=0.03)
    noise = NoiseProfile("target", Metric.TPOT_MS, 9, 8, 0.01)
    taken, verdict, _ = steps_of(truth, noise)
    assert [type(step) for step in taken] == [Screen, Stop]
    assert verdict.outcome == Outcome.REFUTED
    assert "quality is worse than allowed" in verdict.reason
    assert "nothing was timed" in verdict.reason
    assert verdict.effect_log is None


def test_bits_alone_refute_and_items_that_were_not_asked_are_not_missed() -> None:
    truth = replace(QUIET, changes=PRUNED, bits_log=0.03)
    _, _, experiment = steps_of(truth)
    launches = [
        replace(each, samples=tuple(s for s in each.samples if s.metric is not Metric.TASK_CORRECT))
        if each.arm is Arm.CANDIDATE
        else each
        for each in experiment.launches
    ]
    verdict = JUDGE.verdict(PLAN, replace(experiment.evidence(), launches=tuple(launches)))
    assert verdict.outcome == Outcome.REFUTED
    assert "bits per byte" in verdict.reason
    assert "items" not in verdict.reason


def test_weights_that_pass_the_screen_are_timed_and_evaluated_as_they_are_served() -> None:
    truth = replace(QUIET, effect_log=math.log(0.8), changes=PRUNED)
    taken, verdict, experiment = steps_of(truth)
    assert [type(step) for step in taken] == [Screen, MeasurePair, Evaluate, MeasurePair, MeasurePair, Stop]
    assert verdict.outcome == Outcome.SUPPORTED
    unserved = replace(
        experiment.evidence(),
        launches=tuple(r for r in experiment.launches if r.stage != Stage.EVALUATE),
    )
    assert JUDGE.verdict(PLAN, unserved).outcome == Outcome.INCONCLUSIVE


def test_quality_that_the_screen_leaves_open_ends_inconclusive_before_anything_is_timed() -> None:
    truth = replace(QUIET, effect_log=math.log(0.8), changes=PRUNED, bits_log=0.01, bits_document_sd=0.02)
    taken, verdict, _ = steps_of(truth)
    assert [type(step) for step in taken] == [Screen, Stop]
    assert verdict.outcome == Outcome.INCONCLUSIVE
    assert "do not settle the quality" in verdict.reason


def test_pairs_come_before_quality_when_neither_weights_nor_numerics_change() -> None:
    truth = replace(QUIET, effect_log=math.log(0.95), launch_sd=0.01)
    noise = NoiseProfile("target", Metric.TPOT_MS, 9, 8, 0.01)
    taken, _, _ = steps_of(truth, noise)
    assert [type(step) for step in taken[:2]] == [MeasurePair, MeasurePair]


def test_quality_that_the_data_do_not_settle_ends_inconclusive_and_saves_the_validation() -> None:
    truth = replace(QUIET, effect_log=math.log(0.8), bits_document_sd=0.3)
    taken, verdict, _ = steps_of(truth)
    assert not any(isinstance(step, MeasurePair) and step.stage == Stage.VALIDATION for step in taken)
    assert verdict.outcome == Outcome.INCONCLUSIVE
    assert "do not settle the quality" in verdict.reason


def test_nothing_is_supported_without_the_whole_validation() -> None:
    _, verdict, experiment = steps_of(replace(QUIET, effect_log=math.log(0.8)))
    assert verdict.outcome == Outcome.SUPPORTED
    for kept in (0, 1):
        launches = tuple(r for r in experiment.launches if r.index <= kept or r.stage == Stage.EVALUATE)
        early = JUDGE.verdict(PLAN, Evidence(launches, KNOWN, QUIET.changes))
        assert early.outcome == Outcome.INCONCLUSIVE
        assert f"{kept} of 2 validation pairs" in early.reason


def test_nothing_is_supported_without_an_evaluation() -> None:
    _, _, experiment = steps_of(replace(QUIET, effect_log=math.log(0.8)))
    timed = tuple(r for r in experiment.launches if r.stage != Stage.EVALUATE)
    verdict = JUDGE.verdict(PLAN, Evidence(timed, KNOWN, QUIET.changes))
    assert verdict.outcome == Outcome.INCONCLUSIVE
    assert "quality was not measured" in verdict.reason


def test_a_validation_that_shows_no_gain_keeps_a_strong_quick_look_from_being_supported() -> None:
    fast = SimulatedExperiment(
        PLAN, replace(QUIET, effect_log=math.log(0.5)), np.random.default_rng(1), KNOWN
    )
    fast.take(MeasurePair(Stage.QUICK, 4))
    fast.take(Evaluate())
    fast.truth = QUIET
    fast.take(MeasurePair(Stage.VALIDATION, 6))
    fast.take(MeasurePair(Stage.VALIDATION, 6))
    assert JUDGE.verdict(PLAN, fast.evidence()).outcome == Outcome.INCONCLUSIVE


def test_the_verdict_follows_from_the_evidence_alone_and_not_from_its_order() -> None:
    _, verdict, experiment = steps_of(replace(QUIET, effect_log=math.log(0.8)))
    shuffled = list(experiment.launches)
    np.random.default_rng(5).shuffle(shuffled)  # type: ignore[arg-type]
    assert JUDGE.verdict(PLAN, Evidence(tuple(shuffled), KNOWN, QUIET.changes)) == verdict


def test_a_failure_stops_the_experiment_and_is_infeasible_with_its_cause() -> None:
    failed = Evidence((), KNOWN, QUIET.changes, failure="no compiler was found")
    assert JUDGE.next_step(PLAN, failed) == Stop("The candidate did not run: no compiler was found.")
    assert JUDGE.verdict(PLAN, failed).outcome == Outcome.INFEASIBLE


def test_no_evidence_at_all_is_inconclusive() -> None:
    verdict = JUDGE.verdict(PLAN, Evidence((), KNOWN, QUIET.changes))
    assert (verdict.outcome, verdict.effect_log, verdict.launches) == (Outcome.INCONCLUSIVE, None, 0)


def test_one_arm_alone_is_inconclusive_and_measures_nothing_more() -> None:
    _, _, experiment = steps_of(QUIET)
    alone = tuple(r for r in experiment.launches if r.arm == Arm.CONTROL)
    evidence = Evidence(alone, KNOWN, QUIET.changes)
    assert isinstance(JUDGE.next_step(PLAN, evidence), Stop)
    assert "Only one arm" in JUDGE.verdict(PLAN, evidence).reason


def test_a_plan_on_a_metric_that_is_a_gate_only_is_refused_with_those_that_can_be_judged() -> None:
    plan = PLAN.model_copy(update={"metric": Metric.KL_NATS})
    with pytest.raises(UsageError, match="No effect is judged on kl_nats"):
        JUDGE.next_step(plan, Evidence((), KNOWN, ()))


@pytest.mark.parametrize("seed", range(20))
def test_no_experiment_measures_more_pairs_than_its_plan_allows(seed: int) -> None:
    truth = Truth(effect_log=math.log(0.96), launch_sd=0.02)
    noise = NoiseProfile("target", Metric.TPOT_MS, 9, 8, 0.02)
    taken, _, experiment = steps_of(truth, noise, seed=seed)
    validation = [s for s in taken if isinstance(s, MeasurePair) and s.stage == Stage.VALIDATION]
    assert experiment.pairs - len(validation) <= PLAN.full_pairs
    assert experiment.pairs <= PLAN.full_pairs + PLAN.validation_pairs


def test_a_change_that_rounds_to_zero_has_no_sign_in_a_reason() -> None:
    assert [percent(each) for each in (-0.0004, 0.0, 0.0004)] == ["0.0"] * 3
    assert [percent(each) for each in (-0.334, 0.1, 800.0)] == ["\N{MINUS SIGN}28.4", "+10.5", "+∞"]
