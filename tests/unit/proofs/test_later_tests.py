"""Power at the k-th test is that of the level which the campaign's online control gives it."""

from agent.discovery.e_lond import level
from agent.plan.length import LEAST_PAIRS
from tests.proofs.counting import Workers
from tests.proofs.later_tests import GAINS, TESTS, Cell, cells, later_powers
from tests.proofs.simulated_rates import TimeNoise
from tests.simulation.experiment import DEFAULT_PLAN

NOISE = TimeNoise(0.01)
EACH = 8


def test_each_test_is_told_without_a_discovery_before_and_with_every_fifth() -> None:
    told = [(each.test, each.supported) for each in cells() if each.campaign == "hours"]
    assert told == [(1, 0), (5, 0), (20, 0), (20, 3), (50, 0), (50, 9)]
    assert {test for test, _ in told} == set(TESTS)
    assert {each.full_pairs for each in cells()} == {LEAST_PAIRS, DEFAULT_PLAN.full_pairs}


def test_the_level_is_the_one_that_a_campaign_dispatches_at() -> None:
    assert Cell("hours", 16, 20, 3).support_alpha == level(DEFAULT_PLAN.alpha, 19, 3)
    assert Cell("hours", 16, 1, 0).support_alpha > Cell("hours", 16, 5, 0).support_alpha


def test_a_later_test_finds_less_of_a_small_gain_and_as_much_of_a_large_one() -> None:
    told = [Cell("hours", 16, 1, 0), Cell("hours", 16, 50, 0)]
    with Workers(1) as workers:
        found = later_powers(workers, EACH, NOISE, 1, 300, told)
    assert [(each.test, each.power.gain) for each in found] == [
        (cell.test, gain) for cell in told for gain in GAINS
    ]
    counts = {(each.test, each.power.gain): each.power.found.supported for each in found}
    small, large = GAINS
    assert counts[1, large] == counts[50, large] == EACH
    assert counts[50, small] < counts[1, small]
