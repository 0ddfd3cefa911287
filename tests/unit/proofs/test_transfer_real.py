"""How the trials of two campaigns on the real engine are counted."""

import math

import pytest

from experiments.space.configuration import Configuration
from tests.proofs.transfer_real import Course, counted, pooled

BASE = Configuration.of({"serving.threads": 1})
COMPILED = Configuration.of({"serving.threads": 1, "serving.compile": "default"})
DRAFTED = Configuration.of({"serving.threads": 1, "drafting.method": "ngram"})


def course(*found: tuple[Configuration, float], baseline: Configuration = BASE) -> Course:
    bests, gains = zip(*found, strict=True)
    return Course(baseline, bests, gains, (1.0,) * len(found), "")


def test_trials_are_counted_to_a_share_of_the_best_gain_of_either() -> None:
    with_, without = course((COMPILED, 0.7)), course((BASE, 0.0), (COMPILED, 0.72))
    assert counted(with_, without) == {"gain_looked_for": 0.684, "trials_with": 1, "trials_without": 2}
    assert counted(course((DRAFTED, 0.5)), without)["trials_with"] is None


def test_one_configuration_has_one_gain_where_both_had_it_as_their_best() -> None:
    with_, without = course((COMPILED, 0.6)), course((DRAFTED, 0.1), (COMPILED, 0.8))
    assert counted(with_, without)["trials_with"] is None
    first, second = pooled(with_, without)
    both = 1 - math.sqrt(0.4 * 0.2)
    assert first.gains == pytest.approx((both,))
    assert second.gains == pytest.approx((0.1, both))
    assert counted(first, second)["trials_with"] == 1


def test_gains_from_different_baselines_are_not_pooled() -> None:
    with_, without = course((COMPILED, 0.6)), course((COMPILED, 0.8), baseline=DRAFTED)
    assert pooled(with_, without) == (with_, without)
