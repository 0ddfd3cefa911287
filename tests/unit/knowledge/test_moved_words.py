"""A change of place is told once, with its places and its reason."""

import pytest

from knowledge.moved_words import moved_words


@pytest.mark.parametrize(
    ("before", "after", "reason", "words"),
    [
        (5, 2, "overtook H-001", "5 → 2: overtook H-001"),
        (None, 3, "entered the queue as third, after E-1", "entered the queue as third, after E-1"),
        (1, None, "left the queue: tested, after E-1", "left from 1: tested, after E-1"),
        (1, None, "left the queue, after E-1", "left from 1, after E-1"),
        (None, 3, "asked for", "enters at 3: asked for"),
        (1, None, "asked for", "left from 1: asked for"),
    ],
)
def test_a_move_says_its_places_and_why_and_nothing_twice(
    before: int | None, after: int | None, reason: str, words: str
) -> None:
    assert moved_words(before, after, reason) == words
