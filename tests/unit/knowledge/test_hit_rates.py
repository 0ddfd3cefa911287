"""Hit rates: shrunk, bounded, and shared out so that nobody is starved."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from knowledge.hit_rates import CARRIED_MOST, OWED_MOST, Hits, Record, shares, slots


@st.composite
def hits(draw: st.DrawFn) -> Hits:
    judged = draw(st.integers(0, 200))
    return Hits(draw(st.integers(0, judged)), judged)


RECORDS = st.dictionaries(
    st.sampled_from("abcdef"), st.builds(Record, st.integers(0, 50), hits(), hits()), min_size=1
)


def test_nothing_judged_is_a_third() -> None:
    assert Record().chance == pytest.approx(1 / 3)
    assert Hits().words() == "nothing judged yet"


def test_a_rate_is_told_with_its_exact_interval() -> None:
    found = Hits(3, 8)
    assert found.interval() == pytest.approx(tuple(binomtest(3, 8).proportion_ci(0.95)))
    assert found.words() == "3 of 8 judged supported, 38 % (9 to 76 %)"


def test_impossible_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="3 of 2"):
        Hits(3, 2)


def test_other_campaigns_count_as_six_verdicts_at_most() -> None:
    assert Record(elsewhere=Hits(300, 300)).chance == pytest.approx((1 + CARRIED_MOST) / (3 + CARRIED_MOST))
    assert Record(elsewhere=Hits(1, 2)).chance == pytest.approx(2 / 5)


@given(RECORDS)
def test_shares_add_up_and_none_is_nothing(records: dict[str, Record]) -> None:
    found = shares(records)
    assert math.fsum(found.values()) == pytest.approx(1)
    assert min(found.values()) > 0


@given(hits(), hits())
def test_one_hit_more_raises_the_chance_and_one_miss_lowers_it(here: Hits, elsewhere: Hits) -> None:
    now = Record(0, here, elsewhere).chance
    assert Record(0, Hits(here.supported + 1, here.judged + 1), elsewhere).chance > now
    assert Record(0, Hits(here.supported, here.judged + 1), elsewhere).chance < now


@given(RECORDS, st.integers(0, 40))
def test_all_slots_are_given(records: dict[str, Record], count: int) -> None:
    assert sum(slots(records, count).values()) == count


@given(RECORDS)
def test_nobody_is_starved_for_ever(records: dict[str, Record]) -> None:
    """Each comes by when the others had what their shares are of its own next one, and what they are owed."""
    earned = shares(records)
    for name in records:
        within = sum(math.ceil(share / earned[name] + OWED_MOST) + 1 for share in earned.values())
        assert slots(records, within)[name] >= 1


@given(st.dictionaries(st.sampled_from("abcd"), st.builds(Record, st.just(0), hits(), hits()), min_size=1))
def test_over_many_slots_each_has_its_share(records: dict[str, Record]) -> None:
    earned, found = shares(records), slots(records, 400)
    for name, count in found.items():
        assert abs(count - 400 * earned[name]) <= len(records)
