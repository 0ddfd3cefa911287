"""The front of two costs, and the rest in bins."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from knowledge.front import bins, front

POINTS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=40)


@given(POINTS)
def test_the_front_is_what_no_other_equals_or_beats_in_both(points: list[tuple[int, int]]) -> None:
    x, y = (np.array([point[each] for point in points], dtype=np.float64) for each in (0, 1))
    found = front(x, y).tolist()
    chosen = {points[place] for place in found}
    for a in set(points):
        beaten = any(b != a and b[0] <= a[0] and b[1] <= a[1] for b in points)
        assert (a in chosen) is not beaten
    assert len(chosen) == len(found)
    assert list(x[found]) == sorted(x[found])


@given(st.integers(1, 3000), st.integers(1, 500), st.integers(0, 9))
def test_bins_hold_every_point_once_and_are_never_too_many(count: int, most: int, seed: int) -> None:
    drawn = np.random.default_rng(seed)
    x, y = drawn.normal(size=count), drawn.normal(size=count)
    found = bins(x, y, most)
    assert len(found) <= max(most, 1)
    assert sum(each.count for each in found) == count
    assert len({each.first for each in found}) == len(found)
    assert all(x.min() <= each.x <= x.max() and x[each.first] <= each.x + 1e-12 for each in found)


def test_points_on_one_place_are_one_bin() -> None:
    found = bins(np.ones(700), np.zeros(700), 500)
    assert [(each.x, each.y, each.count) for each in found] == [(1.0, 0.0, 700)]
    assert bins(np.array([]), np.array([]), 500) == ()
