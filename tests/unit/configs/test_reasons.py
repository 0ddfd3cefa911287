"""The reason that somebody gives: one line that is kept, or a refusal that says what is wrong with it."""

from __future__ import annotations

import pytest

from configs.errors import UsageError
from configs.reasons import LONGEST_REASON, reason_given


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("It was measured by hand.", "It was measured by hand"),
        (" two\n lines\t", "two lines"),
        ("zu langsam – 30 %", "zu langsam – 30 %"),
        ("x" * LONGEST_REASON, "x" * LONGEST_REASON),
    ],
)
def test_a_reason_is_kept_on_one_line(text: str, kept: str) -> None:
    assert reason_given(text) == kept


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "The reason is empty."),
        (" .. ", "The reason is empty."),
        ("x" * (LONGEST_REASON + 1), "The reason has 501 characters, and 500 are the most."),
        ("red\x1b[31m", "The reason holds characters that are no text."),
        ("half \ud800", "The reason holds characters that are no text."),
    ],
)
def test_what_is_no_reason_is_refused(text: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        reason_given(text)
    assert caught.value.message == told
    assert caught.value.hint
