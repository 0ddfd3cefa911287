"""The course of an experiment: the interval as it stood after each pair."""

from __future__ import annotations

from agent.judge.course import course
from agent.judge.interval import interval, pair_noises
from agent.judge.pairs import PairEffect
from experiments.measurement.evidence import Metric, NoiseProfile

PAIRS = tuple(
    PairEffect(number, number > 1, effect, 0.01, 6, 24)
    for number, effect in enumerate((-0.25, -0.27, -0.24, -0.26))
)
PROFILE = NoiseProfile("cpu", Metric.TPOT_MS, 5, 4, 0.01)


def test_the_last_is_the_interval_of_all_pairs_and_it_narrows() -> None:
    found = course(PAIRS, PROFILE, 0.05)
    assert len(found) == len(PAIRS)
    assert found[-1] == interval(PAIRS, pair_noises(PAIRS, PROFILE), 0.05)
    widths = [each.high_log - each.low_log for each in found if each is not None]
    assert widths == sorted(widths, reverse=True)


def test_nothing_is_known_of_one_pair_without_a_profile() -> None:
    nothing = NoiseProfile("cpu", Metric.TPOT_MS, 0, 0, None)
    found = course(PAIRS, nothing, 0.05)
    assert found[0] is None
    assert all(each is not None for each in found[1:])


def test_no_pairs_have_no_course() -> None:
    assert course((), PROFILE, 0.05) == ()
