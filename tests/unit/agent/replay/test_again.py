"""What a tie costs is what measuring it again can save."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.replay.planners.again import Mean, worth_again

means = st.builds(Mean, st.floats(-0.5, 0.5), st.floats(0.001, 0.1), st.floats(0.001, 0.1))


@given(st.lists(means, max_size=6))
def test_no_more_is_won_than_the_mean_may_move(found: list[Mean]) -> None:
    for each, worth in zip(found, worth_again(found), strict=True):
        assert 0 <= worth <= each.moves_log * 0.4 + 1e-12


def test_one_alone_and_what_is_known_exactly_are_not_measured_again() -> None:
    assert worth_again([Mean(0.0, 0.05, 0.05)]) == [0.0]
    assert worth_again([Mean(0.0, 0.0, 0.05), Mean(0.01, 0.0, 0.05)]) == [0.0, 0.0]
    assert worth_again([]) == []


def test_the_nearer_the_tie_and_the_less_it_is_known_the_more_it_is_worth() -> None:
    near, far = (worth_again([Mean(0.0, 0.03, 0.03), Mean(gap, 0.03, 0.03)])[1] for gap in (0.01, 0.1))
    known = worth_again([Mean(0.0, 0.03, 0.03), Mean(0.01, 0.005, 0.005)])[1]
    assert near > far > 0
    assert near > known


def test_it_is_what_choosing_after_one_measurement_more_saves() -> None:
    """By simulation: the second is measured again, and the better of both by what is known then is taken."""
    first, second = Mean(0.0, 0.02, 0.03), Mean(0.01, 0.04, 0.03)
    random = np.random.default_rng(7)
    truth = random.normal(second.log, second.se_log, 400_000)
    seen = truth + random.normal(0, second.one_log, truth.size)
    weight = second.se_log**2 / (second.se_log**2 + second.one_log**2)
    after = second.log + weight * (seen - second.log)
    saved = float(np.mean(np.maximum(0.0, first.log - after)))
    assert worth_again([first, second])[1] == pytest.approx(saved, rel=0.02)
    assert math.isclose(second.moves_log, second.se_log * math.sqrt(weight))
