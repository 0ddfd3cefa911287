import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.engines.reference.drafting.acceptance import (
    acceptance_length,
    break_even_length,
    by_content_class,
    content_class,
    head_seems_dropped,
    kept_steps,
    position_rates,
)

steps = st.lists(st.integers(1, 5), min_size=1, max_size=50)


@given(steps)
def test_the_length_is_one_and_the_sum_of_the_rates(step_tokens: list[int]) -> None:
    rates = position_rates(step_tokens, 4)
    assert len(rates) == 4
    assert math.isclose(1 + sum(rates), acceptance_length(step_tokens))
    assert list(rates) == sorted(rates, reverse=True), "a draft stands only where those before it do"


@given(steps, st.integers(0, 4))
def test_steps_cut_to_what_a_text_kept_sum_to_it_and_lose_nothing_but_the_end_of_the_last(
    step_tokens: list[int], beyond: int
) -> None:
    beyond = min(beyond, step_tokens[-1] - 1)
    kept = kept_steps(step_tokens, sum(step_tokens) - beyond)
    assert sum(kept) == sum(step_tokens) - beyond
    assert list(kept[:-1]) == step_tokens[:-1]
    assert kept_steps((), 3) == ()


def test_rates_count_steps_with_at_least_so_many_drafts() -> None:
    assert position_rates([1, 2, 3, 3], 2) == (0.75, 0.5)
    assert acceptance_length([1, 2, 3, 3]) == 2.25


@given(st.floats(0.1, 100), st.floats(0.1, 100), st.floats(1, 8))
def test_at_break_even_a_token_takes_as_long_as_without_drafting(
    with_ms: float, without_ms: float, length: float
) -> None:
    break_even = break_even_length(with_ms, without_ms)
    pays = with_ms / length < without_ms
    assert pays == (length > break_even) or math.isclose(length, break_even)


@pytest.mark.parametrize(("with_ms", "without_ms"), [(0, 1), (1, 0), (-1, 1), (float("nan"), 1)])
def test_times_that_are_none_are_refused(with_ms: float, without_ms: float) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        break_even_length(with_ms, without_ms)


def test_no_steps_have_no_length() -> None:
    with pytest.raises(ValueError, match="no verification step"):
        acceptance_length([])


def test_content_classes_are_what_names_begin_with() -> None:
    assert [content_class(item) for item in ("code:os.path", "prose:a:b", "plain", ":x")] == [
        "code",
        "prose",
        "other",
        "other",
    ]
    traces = [("prose:a", (1, 2)), ("code:b", (3,)), ("prose:c", (2,))]
    assert by_content_class(traces) == {"code": (3,), "prose": (1, 2, 2)}


@pytest.mark.parametrize(
    ("step_tokens", "dropped"),
    [([1] * 19, False), ([1] * 20, True), ([1] * 19 + [2], True), ([1] * 18 + [2] * 2, False)],
)
def test_a_dropped_head_is_told_from_twenty_steps_on(step_tokens: list[int], dropped: bool) -> None:
    assert head_seems_dropped(step_tokens) is dropped
