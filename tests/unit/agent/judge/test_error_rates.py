"""Error rates and power of the whole stepping procedure, on experiments whose truth is known.

All rates come from fixed seeds, so that they are the same on every machine; the bounds leave the Monte Carlo
error of the number of experiments. docs/judging.md quotes larger runs of the same code.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest

from agent.judge.launch_interval import LaunchIntervalJudge
from experiments.measurement.evidence import Metric, NoiseProfile
from experiments.measurement.judging import Outcome
from experiments.measurement.plan import StoppingPlan
from experiments.space.configuration import Change
from tests.simulation.experiment import PLAN, PRUNED, Truth, run

QUANTIZED = (Change("quantization.corpus", "raw", "instruct"),)


@dataclass(frozen=True)
class Rates:
    experiments: int
    outcomes: Counter[Outcome]
    covered: int
    with_interval: int
    pairs: int

    def share(self, outcome: Outcome) -> float:
        return self.outcomes[outcome] / self.experiments

    @property
    def coverage(self) -> float:
        return self.covered / self.with_interval

    @property
    def coverage_error(self) -> float:
        """Three standard errors of a coverage of 95 %."""
        return 3 * math.sqrt(0.95 * 0.05 / self.with_interval)


def rates(truth: Truth, experiments: int, degrees_of_freedom: int = 2, seed: int = 1) -> Rates:
    rng = np.random.default_rng(seed)
    judge = LaunchIntervalJudge()
    outcomes: Counter[Outcome] = Counter()
    covered = with_interval = pairs = 0
    for _ in range(experiments):
        verdict, experiment = run(judge, PLAN, truth, rng, degrees_of_freedom=degrees_of_freedom)
        outcomes[verdict.outcome] += 1
        pairs += experiment.pairs
        if verdict.interval_low_log is not None and verdict.interval_high_log is not None:
            with_interval += 1
            covered += verdict.interval_low_log <= truth.effect_log <= verdict.interval_high_log
    return Rates(experiments, outcomes, covered, with_interval, pairs)


@pytest.mark.slow
def test_two_equal_arms_are_called_supported_in_at_most_one_of_a_hundred_experiments() -> None:
    found = rates(Truth(), 2000)
    assert found.share(Outcome.SUPPORTED) <= 0.01
    assert found.coverage >= 0.95 - found.coverage_error


@pytest.mark.parametrize("degrees_of_freedom", [0, 10])
def test_two_equal_arms_are_not_supported_however_well_the_noise_is_known(degrees_of_freedom: int) -> None:
    found = rates(Truth(), 400, degrees_of_freedom)
    assert found.share(Outcome.SUPPORTED) <= 0.01
    assert found.coverage >= 0.95 - found.coverage_error


def test_equal_arms_on_a_noisy_machine_end_open_rather_than_supported() -> None:
    found = rates(Truth(launch_sd=0.03, interruption_chance=0.01), 400)
    assert found.share(Outcome.SUPPORTED) <= 0.01
    assert found.share(Outcome.INCONCLUSIVE) > 0.5


def test_a_candidate_whose_launches_vary_three_times_as_much_as_the_profile_says_is_not_supported() -> None:
    found = rates(Truth(candidate_launch_sd=0.03), 400, degrees_of_freedom=10)
    assert found.share(Outcome.SUPPORTED) <= 0.01


def test_a_gain_of_exactly_min_effect_is_rarely_supported_and_rarely_refuted() -> None:
    found = rates(Truth(effect_log=math.log(1 - PLAN.min_effect)), 400, degrees_of_freedom=10)
    assert found.share(Outcome.SUPPORTED) <= PLAN.alpha / 2 + 0.01
    assert found.share(Outcome.REFUTED) <= PLAN.alpha / 2 + 0.02
    assert found.coverage >= 0.95 - found.coverage_error


def test_a_gain_of_thirty_percent_is_supported_nearly_always_and_with_few_launches() -> None:
    found = rates(Truth(effect_log=math.log(0.7)), 200)
    assert found.share(Outcome.SUPPORTED) >= 0.98
    assert found.pairs / found.experiments < 3.5
    assert found.coverage >= 0.95 - found.coverage_error


def test_a_gain_of_ten_percent_at_one_percent_launch_noise_is_supported_nine_times_of_ten() -> None:
    found = rates(Truth(effect_log=math.log(0.9)), 400)
    assert found.share(Outcome.SUPPORTED) >= 0.9
    assert found.coverage >= 0.95 - found.coverage_error


def test_a_slower_candidate_is_refuted_before_the_plan_is_spent() -> None:
    found = rates(Truth(effect_log=math.log(1.05)), 200)
    assert found.share(Outcome.REFUTED) >= 0.9
    assert found.pairs / found.experiments < PLAN.full_pairs


def test_a_fast_candidate_that_loses_two_percent_of_quality_is_never_supported() -> None:
    found = rates(Truth(effect_log=math.log(0.7), bits_log=0.02, changes=PRUNED), 100)
    assert found.outcomes[Outcome.SUPPORTED] == 0
    assert found.share(Outcome.REFUTED) >= 0.95


@dataclass(frozen=True)
class Claim:
    """A claim that is scored, with the truth of the samples; `gain` is what the truth is worth."""

    name: str
    plan: StoppingPlan
    truth: Truth
    gain: float


def bits_claim(gain: float, document_sd: float = 0.01) -> Claim:
    """Documents whose log ratios scatter; the mean of their ratios is that of `gain` per cent fewer bits."""
    plan = PLAN.model_copy(update={"metric": Metric.NLL_BITS, "min_effect": 0.005})
    truth = Truth(
        bits_log=math.log(1 - gain) - document_sd**2 / 2, bits_document_sd=document_sd, changes=QUANTIZED
    )
    return Claim(f"bits, {100 * gain:g} % fewer", plan, truth, math.log(1 - gain))


def tasks_claim(gain: float, lost: float = 0.01) -> Claim:
    """Items of which a share is lost and that share and `gain` more are gained, by chance."""
    work = PLAN.workload.model_copy(update={"evaluation_items": 300})
    plan = PLAN.model_copy(update={"metric": Metric.TASK_CORRECT, "min_effect": 0.02, "workload": work})
    truth = Truth(
        bits_document_sd=0.0, task_loss_chance=lost, task_gain_chance=lost + gain, changes=QUANTIZED
    )
    return Claim(f"tasks, {100 * gain:g} points more", plan, truth, -gain)


def scored_rates(claim: Claim, experiments: int, seed: int = 1) -> Rates:
    rng = np.random.default_rng(seed)
    judge, noise = LaunchIntervalJudge(), NoiseProfile("target", claim.plan.metric, 0, 0, None)
    outcomes: Counter[Outcome] = Counter()
    covered = with_interval = 0
    for _ in range(experiments):
        verdict, _ = run(judge, claim.plan, claim.truth, rng, noise)
        outcomes[verdict.outcome] += 1
        if verdict.interval_low_log is not None and verdict.interval_high_log is not None:
            with_interval += 1
            covered += verdict.interval_low_log <= claim.gain <= verdict.interval_high_log
    found = Rates(experiments, outcomes, covered, with_interval, 0)
    print(
        f"{claim.name:24} supported {found.share(Outcome.SUPPORTED):.2%}, refuted "
        f"{found.share(Outcome.REFUTED):.2%}, interval holds the truth {found.coverage:.1%} "
        f"({experiments} experiments)"
    )
    return found


@pytest.mark.parametrize(
    "claim", [bits_claim(0.0), bits_claim(0.0, 0.05), tasks_claim(0.0), tasks_claim(0.0, 0.05)]
)
def test_a_claim_on_quality_without_any_gain_is_supported_in_at_most_one_of_a_hundred_experiments(
    claim: Claim,
) -> None:
    found = scored_rates(claim, 300)
    assert found.share(Outcome.SUPPORTED) <= 0.01
    assert found.coverage >= 0.95 - found.coverage_error


@pytest.mark.parametrize("claim", [bits_claim(0.005), tasks_claim(0.02)])
def test_a_gain_in_quality_of_exactly_min_effect_is_rarely_supported_and_rarely_refuted(claim: Claim) -> None:
    found = scored_rates(claim, 400)
    assert found.share(Outcome.SUPPORTED) <= PLAN.alpha / 2 + 0.01
    assert found.share(Outcome.REFUTED) <= PLAN.alpha / 2 + 0.02
    assert found.coverage >= 0.95 - found.coverage_error


@pytest.mark.parametrize("claim", [bits_claim(0.02), tasks_claim(0.09)])
def test_a_clear_gain_in_quality_is_supported_nine_times_of_ten(claim: Claim) -> None:
    found = scored_rates(claim, 100)
    assert found.share(Outcome.SUPPORTED) >= 0.9
