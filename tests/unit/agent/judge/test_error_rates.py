"""Error rates and power of the whole stepping procedure, on experiments whose truth is known.

All rates come from fixed seeds, so that they are the same on every machine; the bounds leave the Monte Carlo
error of the number of experiments. docs/judging.md quotes larger runs of the same code.
"""

from __future__ import annotations

import math

import pytest

from agent.judge.launch_interval import LaunchIntervalJudge
from experiments.measurement.judging import Outcome
from experiments.measurement.plan import StoppingPlan
from tests.simulation.__main__ import claim_rates
from tests.simulation.experiment import PLAN, PRUNED, Truth
from tests.simulation.rates import Rates, simulate
from tests.simulation.truths import Claim, bits_claim, planned, tasks_claim


def rates(truth: Truth, experiments: int, degrees_of_freedom: int = 2, plan: StoppingPlan = PLAN) -> Rates:
    return simulate(LaunchIntervalJudge(), plan, truth, experiments, degrees_of_freedom=degrees_of_freedom)


def holds(found: Rates) -> bool:
    """Whether the interval held the truth at all looks together as often as promised."""
    return found.coverage_of_all_looks >= 0.95 - found.error_of(0.95)


@pytest.mark.bench_only
def test_two_equal_arms_are_called_supported_in_at_most_one_of_a_hundred_experiments() -> None:
    """A judge that supports two of a hundred supports five of 1,000 or fewer once in 14,000 times (Poisson),
    and one whose interval holds at 93 of a hundred holds at 950 of 1,000 once in 150."""
    found = rates(Truth(), 1000)
    assert found.outcomes[Outcome.SUPPORTED] <= 5
    assert found.coverage_of_all_looks >= 0.95


@pytest.mark.parametrize("degrees_of_freedom", [0, 2, 10])
def test_two_equal_arms_are_not_supported_however_well_the_noise_is_known(degrees_of_freedom: int) -> None:
    found = rates(Truth(), 200, degrees_of_freedom)
    assert found.share(Outcome.SUPPORTED) <= 0.01
    assert holds(found)


def test_equal_arms_on_a_noisy_machine_end_open_rather_than_supported() -> None:
    found = rates(Truth(launch_sd=0.03, interruption_chance=0.01), 200)
    assert found.share(Outcome.SUPPORTED) <= 0.01
    assert found.share(Outcome.INCONCLUSIVE) > 0.5


def test_a_candidate_whose_launches_vary_three_times_as_much_as_the_profile_says_is_not_supported() -> None:
    found = rates(Truth(candidate_launch_sd=0.03), 200, degrees_of_freedom=10)
    assert found.share(Outcome.SUPPORTED) <= 0.01


def test_a_gain_of_exactly_min_effect_is_rarely_supported_and_rarely_refuted() -> None:
    found = rates(Truth(effect_log=math.log(1 - PLAN.min_effect)), 300, degrees_of_freedom=10)
    assert found.share(Outcome.SUPPORTED) <= PLAN.alpha / 2 + 0.01
    assert found.share(Outcome.REFUTED) <= PLAN.alpha / 2 + 0.02
    assert holds(found)
    reached = [any((look.e_value or 0) >= 1 / PLAN.alpha for look in c.looks) for c in found.courses]
    assert sum(reached) / found.experiments <= PLAN.alpha + found.error_of(PLAN.alpha)


def test_a_gain_of_thirty_percent_is_supported_nearly_always_and_with_few_launches() -> None:
    found = rates(Truth(effect_log=math.log(0.7)), 100)
    assert found.share(Outcome.SUPPORTED) >= 0.98
    assert found.pairs < 3.5
    assert holds(found)


def test_a_gain_of_ten_percent_at_one_percent_launch_noise_is_supported_nine_times_of_ten() -> None:
    found = rates(Truth(effect_log=math.log(0.9)), 200)
    assert found.share(Outcome.SUPPORTED) >= 0.9
    assert holds(found)


def test_a_slower_candidate_is_refuted_before_the_plan_is_spent() -> None:
    found = rates(Truth(effect_log=math.log(1.05)), 100)
    assert found.share(Outcome.REFUTED) >= 0.9
    assert found.pairs < PLAN.full_pairs


@pytest.mark.bench_only
def test_more_pairs_bring_a_gain_of_five_percent_to_support_nine_times_of_ten() -> None:
    """At launches that vary by 1 %; four pairs, which a campaign of minutes has, do not suffice for that."""
    truth = Truth(effect_log=math.log(0.95))
    few, many = (rates(truth, 150, 10, planned(pairs)) for pairs in (PLAN.full_pairs, 16))
    assert few.share(Outcome.SUPPORTED) < 0.6
    assert many.share(Outcome.SUPPORTED) >= 0.9
    assert holds(many)


def test_a_stricter_level_of_support_asks_for_more_pairs_and_supports_no_gain_at_the_margin() -> None:
    strict = planned(support_alpha=0.0005)
    clear = rates(Truth(effect_log=math.log(0.9)), 100, 10, strict)
    margin = rates(Truth(effect_log=math.log(1 - PLAN.min_effect)), 200, 10, strict)
    assert clear.share(Outcome.SUPPORTED) >= 0.85
    assert all(c.looks[-1].e_value >= 2000 for c in clear.courses if c.outcome is Outcome.SUPPORTED)  # type: ignore[operator]
    assert margin.outcomes[Outcome.SUPPORTED] == 0


def test_a_fast_candidate_that_loses_two_percent_of_quality_is_never_supported() -> None:
    found = rates(Truth(effect_log=math.log(0.7), bits_log=0.02, changes=PRUNED), 100)
    assert found.outcomes[Outcome.SUPPORTED] == 0
    assert found.share(Outcome.REFUTED) >= 0.95


@pytest.mark.parametrize(
    "claim",
    [
        bits_claim(0.0),
        tasks_claim(0.0, 0.05),
        pytest.param(bits_claim(0.0, 0.05), marks=pytest.mark.bench_only),
        pytest.param(tasks_claim(0.0), marks=pytest.mark.bench_only),
    ],
)
def test_a_claim_on_quality_without_any_gain_is_supported_in_at_most_one_of_a_hundred_experiments(
    claim: Claim,
) -> None:
    found = claim_rates(claim, 200)
    assert found.share(Outcome.SUPPORTED) <= 0.01
    assert holds(found)


@pytest.mark.parametrize("claim", [bits_claim(0.005), tasks_claim(0.02)])
def test_a_gain_in_quality_of_exactly_min_effect_is_rarely_supported_and_rarely_refuted(claim: Claim) -> None:
    found = claim_rates(claim, 300)
    assert found.share(Outcome.SUPPORTED) <= PLAN.alpha / 2 + 0.01
    assert found.share(Outcome.REFUTED) <= PLAN.alpha / 2 + 0.02
    assert holds(found)


@pytest.mark.parametrize("claim", [bits_claim(0.02), tasks_claim(0.09)])
def test_a_clear_gain_in_quality_is_supported_nine_times_of_ten(claim: Claim) -> None:
    found = claim_rates(claim, 100)
    assert found.share(Outcome.SUPPORTED) >= 0.9
