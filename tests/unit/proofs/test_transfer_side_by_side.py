"""Trials counted by what configurations take beside each other."""

from __future__ import annotations

from experiments.space.loading import load_space
from tests.proofs.transfer_side_by_side import Course, Seed, distinct, told

SPACE = load_space("reference")
BASE = SPACE.configuration({})
COMPILED = SPACE.with_change(BASE, {"serving.compile": "cpp_wrapper"})
NARROW = SPACE.with_change(BASE, {"serving.dtype": "bfloat16"})
BOTH = SPACE.with_change(COMPILED, {"serving.dtype": "bfloat16"})

SEED = Seed(7, Course(BASE, (COMPILED, COMPILED, BOTH)), Course(BASE, (BASE, NARROW)))


def test_trials_are_counted_to_95_percent_of_the_best_of_both_campaigns() -> None:
    found = told(SEED, {BASE: 10.0, COMPILED: 3.2, BOTH: 3.0, NARROW: 4.0})
    assert found["gain_looked_for"] == 0.665  # 95 % of 70 %
    assert (found["trials_with"], found["trials_without"]) == (1, None)
    assert found["gains_with"] == [0.68, 0.68, 0.7]
    assert found["gains_without"] == [0.0, 0.6]


def test_a_first_best_that_falls_short_does_not_count() -> None:
    found = told(SEED, {BASE: 10.0, COMPILED: 4.0, BOTH: 3.0, NARROW: 3.3})
    assert (found["trials_with"], found["trials_without"]) == (3, 2)


def test_each_configuration_is_measured_once_and_what_they_began_from_too() -> None:
    other = Seed(8, Course(NARROW, (BOTH,)), Course(BASE, (COMPILED,)))
    assert distinct([SEED, other]) == [BASE, NARROW, COMPILED, BOTH]
