"""When an experiment stops, what it asks for next, and what the verdict says of it."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from agent.judge.costs import evaluation_cost_s, most_pairs, spending, warm_load_s
from agent.judge.interval import interval, pair_noises
from agent.judge.launch_interval import LaunchIntervalJudge
from agent.judge.pairs import pair_effects
from agent.judge.sequence import LONGEST_PAIR, blocks_of_next_pair, chance_to_settle, pairs_to_settle
from configs.quantities import format_duration
from experiments.measurement.evidence import Arm, Evidence, Metric, NoiseProfile, Stage
from experiments.measurement.judging import (
    BY_CLOCK,
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
from tests.simulation.truths import planned

JUDGE = LaunchIntervalJudge()
QUIET = Truth(launch_sd=0.002, disturbance_sd=0.001, request_sd=0.001, interruption_chance=0.0)
FAST = replace(QUIET, effect_log=math.log(0.8))
KNOWN = NoiseProfile("target", Metric.TPOT_MS, 9, 8, 0.002)
SCANT = NoiseProfile("target", Metric.TPOT_MS, 3, 2, 0.002)


def judged(
    truth: Truth, plan: StoppingPlan = PLAN, noise: NoiseProfile = KNOWN, seed: int = 1
) -> tuple[list[object], JudgeVerdict, SimulatedExperiment]:
    taken: list[object] = []
    verdict, experiment = run(JUDGE, plan, truth, np.random.default_rng(seed), noise, on_step=taken.append)
    return taken, verdict, experiment


def pairs_of(truth: Truth, count: int, noise: NoiseProfile = KNOWN) -> SimulatedExperiment:
    """So many full pairs, whatever a judge would say."""
    experiment = SimulatedExperiment(PLAN, truth, np.random.default_rng(1), noise)
    for _ in range(count):
        experiment.take(MeasurePair(Stage.FULL, PLAN.full_blocks))
    return experiment


def test_a_verdict_that_stopped_early_says_and_stores_what_was_saved() -> None:
    _, verdict, experiment = judged(replace(QUIET, effect_log=math.log(1.1)))
    assert (verdict.outcome, experiment.pairs) == (Outcome.REFUTED, 1)
    spent, planned_s = verdict.details["spent_s"], verdict.details["planned_s"]
    assert isinstance(spent, float)
    assert isinstance(planned_s, float)
    assert spent < planned_s / 4
    times = (format_duration(spent), format_duration(planned_s))
    ended = (
        f"; ended after {times[0]} of measuring by the clock, of an estimated {times[1]} for its whole plan."
    )
    assert verdict.reason.endswith(ended)
    assert verdict.details[BY_CLOCK] is True


def loading(experiment: SimulatedExperiment, control_s: float, candidate_s: float) -> Evidence:
    """The evidence as if the launches of each arm had loaded for so long."""
    takes = {Arm.CONTROL: control_s, Arm.CANDIDATE: candidate_s}
    launches = tuple(replace(each, load_s=takes[each.arm]) for each in experiment.launches)
    return replace(experiment.evidence(), launches=launches)


@pytest.mark.parametrize(("in_turn", "a_pair_s"), [(False, 150.0), (True, 240.0)])
def test_loads_side_by_side_are_waited_for_once_and_those_in_turn_one_after_the_other(
    in_turn: bool, a_pair_s: float
) -> None:
    experiment = pairs_of(QUIET, 2)
    requests, waiting = (
        spending(PLAN, replace(loading(experiment, *loads), in_turn=in_turn))
        for loads in ((0.0, 0.0), (90.0, 150.0))
    )
    assert requests is not None
    assert waiting is not None
    assert waiting.spent_s - requests.spent_s == pytest.approx(2 * a_pair_s)
    left_s, without_loads_s = (each.planned_s - each.spent_s for each in (waiting, requests))
    evaluation_s = 90.0 + 150.0  # it stands for a pair where no time of prefill is known
    assert left_s - without_loads_s == pytest.approx((most_pairs(PLAN) - 2) * a_pair_s + evaluation_s)


def test_a_launch_that_was_measured_further_was_loaded_once() -> None:
    experiment = pairs_of(QUIET, 1)
    before = spending(PLAN, loading(experiment, 90.0, 150.0))
    experiment.take(MeasureMore(Stage.FULL, PLAN.full_blocks))
    after = spending(PLAN, loading(experiment, 90.0, 150.0))
    assert before is not None
    assert after is not None
    assert after.spent_s - 150.0 == pytest.approx(2 * (before.spent_s - 150.0), rel=0.1)


def test_what_its_stages_took_by_the_clock_is_what_was_spent() -> None:
    """Pairs that were loaded ahead were waited for with the first one, which no launch tells."""
    evidence = loading(pairs_of(QUIET, 2), 90.0, 150.0)
    added_up = spending(PLAN, evidence)
    by_stages = spending(PLAN, replace(evidence, measured_s=180.0))
    assert added_up is not None
    assert by_stages is not None
    assert added_up.spent_s > 2 * 150.0
    assert by_stages.spent_s == 180.0
    saved = [each.planned_s - each.spent_s for each in (added_up, by_stages)]
    assert saved[0] == pytest.approx(saved[1])


def test_no_evaluation_is_planned_for_made_up_weights() -> None:
    evidence = loading(pairs_of(QUIET, 1), 90.0, 150.0)
    real, made_up = (
        spending(PLAN.model_copy(update={"latency_only": each}), evidence) for each in (False, True)
    )
    assert real is not None
    assert made_up is not None
    assert real.planned_s - made_up.planned_s == pytest.approx(evaluation_cost_s(PLAN, evidence))


@pytest.mark.parametrize("effect", [0.8, 0.95, 0.97, 1.1])
def test_how_long_it_took_by_the_clock_decides_nothing(effect: float) -> None:
    truth = replace(QUIET, effect_log=math.log(effect), launch_sd=0.01)
    for pairs in range(1, 4):
        evidence = loading(pairs_of(truth, pairs), 90.0, 150.0)
        others = (replace(evidence, in_turn=True), replace(evidence, measured_s=1.0))
        step, verdict = JUDGE.next_step(PLAN, evidence), JUDGE.verdict(PLAN, evidence)
        for other in others:
            told = JUDGE.verdict(PLAN, other)
            assert (told.outcome, told.effect_log, told.interval_high_log) == (
                verdict.outcome, verdict.effect_log, verdict.interval_high_log,
            )  # fmt: skip
            again = JUDGE.next_step(PLAN, other)
            assert type(again) is type(step)
            assert again == step or isinstance(step, Stop), "what it says when it stops tells the time"


def test_what_is_spent_is_the_loading_and_the_requests_of_the_launches() -> None:
    experiment = pairs_of(QUIET, 2)
    found = spending(PLAN, experiment.evidence())
    requests = 2 * 2 * PLAN.full_blocks * PLAN.workload.prompts_per_block
    # the prompts' levels are 1 to 1.4 times that of the first
    seconds = requests * QUIET.tpot_ms * 1.2 * PLAN.workload.new_tokens / 1e3
    assert found is not None
    assert found.spent_s == pytest.approx(2 * QUIET.load_s + seconds, rel=0.1)
    # six pairs and one evaluation, which without a time of prefill is taken to cost a pair's launches
    evaluation_s = found.spent_s / 2 + QUIET.load_s
    assert found.planned_s == pytest.approx(most_pairs(PLAN) * found.spent_s / 2 + evaluation_s, rel=0.1)


def test_a_look_at_the_quality_before_anything_was_timed_is_spent_and_planned() -> None:
    pruned = replace(QUIET, changes=PRUNED)
    plain, screened = (SimulatedExperiment(PLAN, pruned, np.random.default_rng(1), KNOWN) for _ in range(2))
    screened.take(Screen())
    for experiment in (plain, screened):
        experiment.take(MeasurePair(Stage.QUICK, PLAN.quick_blocks))
    before, after = (spending(PLAN, each.evidence()) for each in (plain, screened))
    assert before is not None
    assert after is not None
    look = evaluation_cost_s(PLAN, screened.evidence())
    assert look > 0
    assert after.spent_s == pytest.approx(before.spent_s + look, rel=0.05)
    assert after.planned_s - after.spent_s == pytest.approx(before.planned_s - before.spent_s, rel=0.05)


def test_a_failure_saves_nothing() -> None:
    failed = replace(pairs_of(QUIET, 1).evidence(), failure="out of memory")
    assert "ended after" not in JUDGE.verdict(PLAN, failed).reason


def test_all_details_are_json_numbers_or_null() -> None:
    _, verdict, _ = judged(FAST)
    assert json.loads(json.dumps(verdict.details, allow_nan=False)) == verdict.details
    assert verdict.details["support_alpha"] == PLAN.alpha
    e_value = verdict.details["e_value"]
    assert isinstance(e_value, float)
    assert e_value >= 1 / PLAN.alpha
    nothing = JUDGE.verdict(PLAN, Evidence((), KNOWN, QUIET.changes)).details
    assert (nothing["e_value"], nothing["spent_s"], nothing["planned_s"]) == (None, None, None)


def test_an_interval_that_excludes_nothing_yet_is_none_and_says_so() -> None:
    verdict = JUDGE.verdict(PLAN, pairs_of(FAST, 1, SCANT).evidence())
    assert (verdict.outcome, verdict.interval_low_log, verdict.interval_high_log) == (
        Outcome.INCONCLUSIVE,
        None,
        None,
    )
    assert "no interval yet" in verdict.reason


def test_a_gain_that_the_validation_will_most_probably_show_needs_no_further_exploration() -> None:
    """After one pair with a scant profile there is no interval, but hardly a doubt about 20 %."""
    taken, verdict, experiment = judged(FAST, noise=SCANT)
    assert [type(step) for step in taken] == [MeasurePair, Evaluate, MeasurePair, MeasurePair, Stop]
    assert (verdict.outcome, experiment.pairs) == (Outcome.SUPPORTED, 3)


def test_what_the_validation_shows_to_be_too_small_ends_at_once() -> None:
    slow = pairs_of(replace(QUIET, effect_log=math.log(1.05)), 1)
    slow.take(Evaluate())
    slow.take(MeasurePair(Stage.VALIDATION, 6))
    assert PLAN.validation_pairs > 1
    assert isinstance(JUDGE.next_step(PLAN, slow.evidence()), Stop)
    assert JUDGE.verdict(PLAN, slow.evidence()).outcome == Outcome.REFUTED


def test_support_takes_the_e_value_of_the_plans_level_and_says_what_would_reach_it() -> None:
    experiment = pairs_of(replace(QUIET, effect_log=math.log(0.955), launch_sd=0.005), 2)
    experiment.take(Evaluate())
    for _ in range(4):
        experiment.take(MeasurePair(Stage.VALIDATION, 6))
    noise = NoiseProfile("target", Metric.TPOT_MS, 11, 10, 0.005)
    evidence = replace(experiment.evidence(), noise=noise)
    assert JUDGE.verdict(PLAN, evidence).outcome == Outcome.SUPPORTED
    strict = planned(support_alpha=1e-9)
    assert isinstance(JUDGE.next_step(strict, evidence), Stop)
    verdict = JUDGE.verdict(strict, evidence)
    assert verdict.outcome == Outcome.INCONCLUSIVE
    assert verdict.interval_high_log is not None
    assert verdict.interval_high_log < math.log(1 - PLAN.min_effect)
    assert "is below the 1,000,000,000 at which this experiment may be called supported" in verdict.reason
    assert "pairs like these would" in verdict.reason


def test_a_stricter_level_asks_for_further_validation_pairs_before_it_gives_up() -> None:
    truth, noise = (
        replace(QUIET, effect_log=math.log(0.9), launch_sd=0.01),
        NoiseProfile("target", Metric.TPOT_MS, 11, 10, 0.01),
    )
    plain, strict = (judged(truth, planned(support_alpha=level), noise)[2].pairs for level in (None, 1e-6))
    assert plain < strict <= most_pairs(PLAN)


def test_the_pairs_that_would_settle_it_do() -> None:
    truth = replace(QUIET, effect_log=math.log(0.95), launch_sd=0.01)
    noise = NoiseProfile("target", Metric.TPOT_MS, 11, 10, 0.01)
    evidence = pairs_of(truth, 2, noise).evidence()
    pairs = pair_effects(evidence, PLAN.metric)
    now = interval(pairs, pair_noises(pairs, noise), PLAN.alpha)
    found = pairs_to_settle(PLAN, now)
    assert found is not None
    distance = abs(now.mean_log - math.log(1 - PLAN.min_effect))
    assert now.noise.reach(found, PLAN.alpha) < distance <= now.noise.reach(found - 1, PLAN.alpha)
    assert pairs_to_settle(planned(support_alpha=1e-6), now) != found
    assert 0 <= chance_to_settle(PLAN, now) <= chance_to_settle(planned(full_pairs=30), now) <= 1


def test_later_pairs_have_more_blocks_where_prompts_vary_more_than_launches_and_cost_less() -> None:
    noisy = replace(QUIET, launch_sd=0.0, request_sd=0.08, load_s=60.0)
    steady = replace(QUIET, launch_sd=0.02)

    def asked(truth: Truth) -> int:
        evidence = pairs_of(truth, 3).evidence()
        pairs = pair_effects(evidence, PLAN.metric)
        now = interval(pairs, pair_noises(pairs, KNOWN), PLAN.alpha)
        return blocks_of_next_pair(PLAN, evidence, now, pairs)

    assert asked(steady) == PLAN.full_blocks
    assert PLAN.full_blocks < asked(noisy) <= LONGEST_PAIR * PLAN.full_blocks


def test_what_the_first_launch_builds_is_no_loading_of_the_next_pair() -> None:
    noisy = replace(QUIET, launch_sd=0.02, request_sd=0.12, load_s=8.0)
    evidence = pairs_of(noisy, 3).evidence()
    pairs = pair_effects(evidence, PLAN.metric)
    now = interval(pairs, pair_noises(pairs, KNOWN), PLAN.alpha)
    first, *others = evidence.launches
    building = replace(evidence, launches=(replace(first, load_s=90.0), *others))
    assert warm_load_s(building) == warm_load_s(evidence) == 2 * noisy.load_s
    asked = [blocks_of_next_pair(PLAN, each, now, pairs) for each in (evidence, building)]
    assert PLAN.full_blocks < asked[0] == asked[1] < LONGEST_PAIR * PLAN.full_blocks


def test_the_blocks_asked_for_do_not_depend_on_the_effect() -> None:
    noisy = replace(QUIET, launch_sd=0.0, request_sd=0.08, load_s=60.0)
    asked = set()
    for effect in (-0.5, 0.0, 0.5):
        evidence = pairs_of(replace(noisy, effect_log=effect), 3).evidence()
        pairs = pair_effects(evidence, PLAN.metric)
        now = interval(pairs, pair_noises(pairs, KNOWN), PLAN.alpha)
        asked.add(blocks_of_next_pair(PLAN, evidence, now, pairs))
    assert len(asked) == 1
