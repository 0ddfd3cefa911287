"""An outcome that lies very far off is heard, and does not shake what it says nothing about."""

from __future__ import annotations

import math
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.surrogate import hearing
from agent.surrogate.averaged import Averaged
from agent.surrogate.hearing import FARTHEST, Row, heard, heard_after
from agent.surrogate.linear import LinearBelief

NOISE = 0.05**2
features = st.dictionaries(st.sampled_from(("kernel", "graphs", "head")), st.floats(-0.4, 0.4), min_size=1)
rows = st.tuples(features, st.floats(-3, 3), st.just(NOISE))


def learnt(found: list[Row]) -> LinearBelief:
    named, residuals, variances = zip(*found, strict=True) if found else ((), (), ())
    return LinearBelief.learn(named, residuals, variances)


@given(st.lists(rows, max_size=6), rows)
def test_no_surprise_is_heard_as_more_than_so_many_standard_deviations(before: list[Row], new: Row) -> None:
    belief = learnt(heard(before))
    said, residual, variance = heard_after(belief, new)
    [mean], [spread] = belief.predict([said])
    surprise = residual - float(mean)
    most = FARTHEST * math.sqrt(float(spread) + belief.scale**2 * variance)
    assert abs(surprise) <= most * (1 + 1e-9)
    if abs(new[1] - float(mean)) <= most:
        assert residual == pytest.approx(new[1])
    assert surprise * (new[1] - float(mean)) >= 0


@given(st.lists(rows, max_size=6))
def test_hearing_all_is_hearing_one_after_another(told: list[Row]) -> None:
    belief = LinearBelief.learn([], [], [])
    for row, at_once in zip(told, heard(told), strict=True):
        one = heard_after(belief, row)
        assert one[1] == pytest.approx(at_once[1], abs=1e-6)
        belief = belief.after(*one)


@given(st.lists(rows, max_size=9))
def test_how_many_are_taken_together_changes_nothing(told: list[Row]) -> None:
    together = heard(told)
    with mock.patch.object(hearing, "TOGETHER", 2):
        assert [each[1] for each in heard(told)] == pytest.approx([each[1] for each in together], abs=1e-9)


@given(st.lists(rows, max_size=6))
def test_where_nothing_is_too_far_all_is_heard_as_it_was_said(told: list[Row]) -> None:
    assert heard(told, math.inf) == told


def test_one_disaster_makes_no_other_lever_a_gamble() -> None:
    """The kernel that took seven times as long on an H200 (docs/results/h200-campaign.md): of graphs, which
    it has nothing to do with, next to nothing else is believed after it."""
    disaster: Row = ({"kernel": 0.2}, math.log(6.7), NOISE)
    calm = Averaged.learn([({"head": 0.2}, 0.1, NOISE)], {}, FARTHEST)
    shaken = calm.after(*disaster)
    before, after = (float(each.predict([{"graphs": 0.05}])[1][0]) ** 0.5 for each in (calm, shaken))
    assert after < 2 * before
    mean = float(shaken.predict([{"kernel": 0.2}])[0][0])
    assert mean > 0.4, "of the kernel itself it is believed"
