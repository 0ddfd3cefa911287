"""The walk over a text that says how many drafts each step accepts."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.drafters.dflash.acceptance import accepted_lengths, summarise

TEXT = [5, 6, 7, 8, 9, 6, 7]


def test_a_perfect_drafter_is_accepted_whole() -> None:
    drafts = [TEXT[place + 1 : place + 3] for place in range(5)]
    assert accepted_lengths(TEXT, drafts, 0) == [2, 2]


def test_a_wrong_draft_ends_the_step_and_later_ones_do_not_count() -> None:
    drafts = [[], [7, 0, 9], [0, 9, 6], [9, 6, 7]]
    assert accepted_lengths(TEXT, drafts, 1) == [1, 3]


def test_a_step_that_would_reach_beyond_the_text_is_not_walked() -> None:
    assert accepted_lengths(TEXT, [[6, 7], [7, 8], [8, 9], [9, 6], [6, 7], [7, 8]], 5) == []


def test_the_figures_count_the_targets_own_token_and_rates_never_rise() -> None:
    figures = summarise([0, 2, 1, 1], drafted=3)
    assert figures.steps == 4
    assert figures.tokens_per_step == 2.0
    assert figures.rate_by_position == (0.75, 0.25, 0.0)


def test_no_step_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="shorter than a block"):
        summarise([], drafted=3)


@given(st.lists(st.integers(0, 3), min_size=8, max_size=40), st.integers(1, 3), st.randoms())
def test_the_steps_walk_the_whole_text_and_no_further(text: list[int], drafted: int, chance: Random) -> None:
    drafts = [[chance.randrange(4) for _ in range(drafted)] for _ in range(len(text) - drafted)]
    lengths = accepted_lengths(text, drafts, 0)
    assert len(text) - drafted <= sum(1 + length for length in lengths) <= len(text)
